//! Limited run of the checks of the fuzz targets, with inputs from a seeded generator that are then mutated.

#[path = "../../fuzz/invariants.rs"]
mod invariants;

use parlor_socketio::websocket::apply_mask;

const INPUTS: usize = 12_000;

/// Pseudo-random numbers, the same in every run.
struct SeededRandom(u64);

impl SeededRandom {
    fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % below
    }

    fn byte(&mut self) -> u8 {
        self.next(256) as u8
    }

    fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.next(from.len())]
    }
}

/// Changes, removes, truncates or inserts bytes; in half of the cases none.
fn mutate(numbers: &mut SeededRandom, bytes: &mut Vec<u8>, likely: &[u8]) {
    for _ in 0..numbers.next(6).saturating_sub(2) {
        let at = numbers.next(bytes.len() + 1);
        match numbers.next(5) {
            0 if at < bytes.len() => bytes[at] = numbers.byte(),
            1 if at < bytes.len() => bytes[at] ^= 1 << numbers.next(8),
            2 if at < bytes.len() => drop(bytes.remove(at)),
            3 => bytes.insert(at, likely[numbers.next(likely.len())]),
            4 => bytes.truncate(at),
            _ => {}
        }
    }
}

fn random_frame_stream(numbers: &mut SeededRandom) -> Vec<u8> {
    let mut all = vec![numbers.byte(), numbers.byte()];
    let mut open = false;
    for _ in 0..1 + numbers.next(6) {
        let opcode = match numbers.next(12) {
            0 => 8,
            1 | 2 => 9,
            3 => 10,
            4 => numbers.byte() & 15,
            _ if open => 0,
            _ => 1 + numbers.byte() % 2,
        };
        let last = opcode >= 8 || numbers.next(3) > 0;
        if opcode < 8 {
            open = !last;
        }
        all.push(u8::from(last) << 7 | opcode);
        let text = numbers.pick(&["", "a", "κόσμε", "\u{10348}", "hello, world €"]);
        let mut payload = match opcode {
            8 => [&[3, 0xe8 + numbers.byte() % 17], text.as_bytes()].concat(),
            _ => text.repeat(numbers.next(12)).into_bytes(),
        };
        if numbers.next(4) == 0 {
            payload.truncate(numbers.next(payload.len() + 1));
        }
        match payload.len() {
            len @ 0..126 => all.push(0x80 | len as u8),
            len => all.extend([0xfe, (len >> 8) as u8, len as u8]),
        }
        let key = [
            numbers.byte(),
            numbers.byte(),
            numbers.byte(),
            numbers.byte(),
        ];
        all.extend(key);
        apply_mask(&mut payload, key, 0);
        all.extend(payload);
    }
    mutate(numbers, &mut all, &[0x00, 0x80, 0x81, 0x88, 0xfe, 0xff]);
    all
}

#[test]
fn random_frame_streams_parse_or_fail_the_same_for_any_chunking() {
    let mut numbers = SeededRandom(0x5eed_f4a3);
    for _ in 0..INPUTS {
        invariants::frames(&random_frame_stream(&mut numbers));
    }
}

#[test]
fn any_bytes_are_a_polling_body_or_refused() {
    let mut numbers = SeededRandom(0x5eed_b0d1);
    let packets = [
        "4hello",
        "4€",
        "2",
        "2probe",
        "3",
        "1",
        "5",
        "6",
        "bAQIDBA==",
        "bAQI",
        "b",
        "0{}",
        "4",
    ];
    for _ in 0..INPUTS {
        let mut body = Vec::new();
        for _ in 0..numbers.next(6) {
            body.extend(numbers.pick(&packets).as_bytes());
            body.push(0x1e);
        }
        body.pop();
        mutate(&mut numbers, &mut body, b"\x1e4b=\xff012");
        invariants::payload(&body);
    }
}

fn random_json(numbers: &mut SeededRandom, depth: usize) -> String {
    let leaf = [
        "1",
        "-0.5e3",
        "true",
        "null",
        "\"a\"",
        "\"\\u20ac\\n\"",
        "\"€\"",
        "{\"_placeholder\":true,\"num\":0}",
        "[]",
        "{}",
    ];
    match numbers.next(8) {
        0 if depth > 0 => format!(
            "[{},{}]",
            random_json(numbers, depth - 1),
            random_json(numbers, depth - 1)
        ),
        1 if depth > 0 => format!("{{\"k\": {}}}", random_json(numbers, depth - 1)),
        _ => numbers.pick(&leaf).into(),
    }
}

#[test]
fn any_text_is_a_socket_packet_or_refused() {
    let mut numbers = SeededRandom(0x5eed_50c4);
    for _ in 0..INPUTS {
        let mut text = numbers
            .pick(&["0", "1", "2", "3", "4", "51-", "52-", "60-", "2", "2"])
            .to_owned();
        text += numbers.pick(&["", "", "/custom,", "/,", "/é,"]);
        text += numbers.pick(&["", "", "7", "12345", "18446744073709551615"]);
        text += numbers.pick(&[
            "[\"message\"",
            "[\"a\\\"\"",
            "[12",
            "[",
            "{\"a\":1}",
            "",
            "[\"connect\"",
        ]);
        if text.contains('[') {
            for _ in 0..numbers.next(7) {
                text += ",";
                text += &random_json(&mut numbers, 4);
            }
            text += "]";
        }
        let mut bytes = text.into_bytes();
        mutate(&mut numbers, &mut bytes, b"[]{},:\"\\-0/ ");
        invariants::packet(&bytes);
    }
}
