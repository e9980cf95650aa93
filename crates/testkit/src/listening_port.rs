//! Checks that a given process listens on a port, not any process.

use std::{fs, net::TcpStream};

/// True if `process` itself accepts connections on `port` of 127.0.0.1 (or of all addresses).
///
/// If the system has no `/proc`, true if any process accepts connections there.
pub(crate) fn process_listens_on(process: u32, port: u16) -> bool {
    let folder = format!("/proc/{process}");
    let tables = ["net/tcp", "net/tcp6"];
    let mut proc_is_readable = false;
    let mut sockets = Vec::new();
    for table in tables {
        if let Ok(table) = fs::read_to_string(format!("{folder}/{table}")) {
            proc_is_readable = true;
            sockets.extend(
                table
                    .lines()
                    .filter_map(|line| listening_socket_inode(line, port)),
            );
        }
    }
    if !proc_is_readable {
        return TcpStream::connect(("127.0.0.1", port)).is_ok();
    }
    let Ok(files) = fs::read_dir(format!("{folder}/fd")) else {
        return false;
    };
    files
        .filter_map(|file| fs::read_link(file.ok()?.path()).ok())
        .any(|target| {
            sockets
                .iter()
                .any(|socket| target.as_os_str() == socket.as_str())
        })
}

/// Parses `sl local_address rem_address st queues timer retransmits uid timeout inode`; state `0A` is listening.
fn listening_socket_inode(line: &str, port: u16) -> Option<String> {
    let fields: Vec<_> = line.split_whitespace().collect();
    let (_, local) = fields.get(1)?.rsplit_once(':')?;
    let ours = u16::from_str_radix(local, 16) == Ok(port) && *fields.get(3)? == "0A";
    ours.then(|| Some(format!("socket:[{}]", fields.get(9)?)))?
}
