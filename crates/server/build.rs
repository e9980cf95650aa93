//! Compiles the gRPC definitions, without a `protoc` on the machine: the server's side, and the descriptors for reflection.

use std::error::Error;
use std::path::PathBuf;
use std::{env, fs};

const FILES: &[&str] = &[
    "parlor/v1/chat.proto",
    "parlor/v1/limits.proto",
    "parlor/v1/sessions.proto",
    "parlor/v1/user_status.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    let mut compiler = protox::Compiler::new(["proto"])?;
    compiler.include_imports(true).include_source_info(true);
    compiler.open_files(FILES)?;
    let folder = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?);
    fs::write(
        folder.join("descriptors.bin"),
        compiler.encode_file_descriptor_set(),
    )?;
    tonic_prost_build::configure()
        .build_client(false)
        .build_transport(false)
        .codec_path("crate::grpc::codec::SmallBufferCodec")
        .compile_fds(compiler.file_descriptor_set())?;
    Ok(())
}
