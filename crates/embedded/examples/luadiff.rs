#![allow(missing_docs, clippy::all, clippy::unwrap_used)]
use redis::aio::ConnectionLike;
#[tokio::main(flavor = "current_thread")]
async fn main() {
    let file = std::fs::read(std::env::args().nth(1).unwrap()).unwrap();
    let verbose = std::env::args().nth(2).is_some();
    let engine = parlor_embedded::Engine::open(parlor_embedded::Options::default()).unwrap();
    let mut ours = engine.connection();
    let client = redis::Client::open("redis://127.0.0.1:7391").unwrap();
    let mut real = client.get_multiplexed_async_connection().await.unwrap();
    let _: Result<redis::Value, _> = real.req_packed_command(&redis::cmd("FLUSHALL")).await;
    let mut args: Vec<Vec<u8>> = vec![];
    let (mut n, mut bad) = (0, 0);
    for part in file.split(|b| *b == 0) {
        if part == b"\x01" {
            let mut cmd = redis::Cmd::new();
            for a in &args { cmd.arg(a); }
            let show = args.iter().map(|a| String::from_utf8_lossy(a).into_owned()).collect::<Vec<_>>().join(" ");
            let f = |r: redis::RedisResult<redis::Value>| match r { Ok(v) => match v.extract_error() { Ok(v) => format!("{v:?}"), Err(e) => format!("E {e:?}") }, Err(e) => format!("E {e:?}") };
            let a = f(ours.req_packed_command(&cmd).await);
            let b = f(real.req_packed_command(&cmd).await);
            n += 1;
            if a != b || verbose { bad += 1; println!("--- {show}\n  ours {a}\n  real {b}"); }
            args.clear();
        } else { args.push(part.to_vec()); }
    }
    println!("{n} commands, {bad} shown");
}
