//! Servers end however the test ends.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    thread,
};

use parlor_testkit::{Redis, eventually, is_running};

#[test]
fn a_panic_ends_the_server() {
    let (send, receive) = std::sync::mpsc::channel();
    let test = thread::spawn(move || {
        tokio::runtime::Runtime::new().unwrap().block_on(async {
            let server = Redis::start().await;
            send.send(server.pid()).unwrap();
            panic!("test panics on purpose");
        });
    });
    let pid = receive.recv().unwrap();
    assert!(test.join().is_err());
    assert!(!is_running(pid));
}

/// Starts the program of this crate, which holds servers as a test process does.
fn start_holder(kind: &str) -> (Child, Vec<u32>) {
    let mut holder = Command::new(env!("CARGO_BIN_EXE_parlor-testkit"))
        .arg(kind)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(holder.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    // The URL follows. The program ends if it cannot print the URL, so the line is read.
    output.read_line(&mut String::new()).unwrap();
    let pids: Vec<u32> = line
        .trim()
        .trim_matches(['[', ']'])
        .split(", ")
        .map(|pid| pid.parse().unwrap())
        .collect();
    assert!(pids.iter().all(|pid| is_running(*pid)));
    (holder, pids)
}

async fn assert_servers_end_after_sigkill(kind: &str) {
    let (mut holder, pids) = start_holder(kind);
    holder.kill().unwrap();
    holder.wait().unwrap();
    eventually("the servers of a killed process end", async || {
        !pids.iter().any(|pid| is_running(*pid))
    })
    .await;
}

#[tokio::test]
async fn kill_9_of_the_test_process_ends_its_redis() {
    assert_servers_end_after_sigkill("redis").await;
}

#[tokio::test]
async fn kill_9_of_the_test_process_ends_its_sentinels() {
    assert_servers_end_after_sigkill("sentinel").await;
}

#[tokio::test]
async fn kill_9_of_the_test_process_ends_its_postgres() {
    assert_servers_end_after_sigkill("postgres").await;
}
