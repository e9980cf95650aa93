use super::*;

fn user(at: usize) -> UserId {
    UserId::new(format!("u{at}")).expect("a valid id")
}

fn api(at: usize) -> Device {
    Device::api(user(at), DeviceId::new("api").expect("a valid id"))
}

fn socket(at: usize) -> Held {
    let socket = SocketId::new(format!("s{at}")).expect("a valid id");
    Held {
        device: Device::socket(user(at), socket).into(),
        connected: Moment(1),
        announced: false,
    }
}

#[test]
fn beats_without_a_socket_are_refused_when_too_many_wait() {
    let mut local = Local::default();
    for at in 0..MOST_BEATS {
        assert!(local.beat(&api(at), Moment(1)));
    }
    assert!(!local.beat(&api(MOST_BEATS), Moment(1)));
    assert!(local.beat(&api(0), Moment(2)), "it has its place already");
    local.add(socket(0));
    assert!(local.beat(&socket(0).device, Moment(1)), "a socket has one");

    // Those on their way may come back, and those that came back may stay.
    let beats = local.take_beats();
    assert!(!local.beat(&api(MOST_BEATS), Moment(1)));
    local.put_back(&beats);
    assert!(!local.beat(&api(MOST_BEATS), Moment(1)));
    local.take_beats();
    assert!(local.landed(Vec::new()).is_empty());
    assert!(local.beat(&api(MOST_BEATS), Moment(1)));
}

#[test]
fn goings_and_closings_are_bounded() {
    let mut local = Local::default();
    for at in 0..3 * MOST_GOING {
        local.keep_going([(socket(at), Going::Lost)]);
        local.close(socket(at).device);
    }
    assert_eq!(local.take_going().len(), MOST_GOING);
    let closing = std::iter::from_fn(|| local.take_closing());
    assert_eq!(closing.count(), MOST_CLOSING);
}

#[test]
fn sockets_that_come_and_go_while_the_store_is_away_are_not_owed() {
    let mut local = Local::default();
    for at in 0..100 {
        let held = socket(at);
        local.add(held.clone());
        local.owe([key(&held.device), key(&held.device)]);
        if at % 2 == 0 {
            local.remove(&held.device, Going::Lost);
        }
    }
    local.owe_all();
    assert_eq!(local.owed.len(), 50);
    assert_eq!(local.take_owed(20).len(), 20);
    assert_eq!(local.take_owed(100).len(), 30);
    assert!(!local.owes());
}

#[test]
fn how_a_socket_went_during_its_registration_is_remembered() {
    let mut local = Local::default();
    let devices = [socket(0), socket(1), socket(2)];
    for held in &devices {
        local.add(held.clone());
    }
    local.registering(&devices);
    local.remove(&devices[0].device, Going::Lost);
    local.remove(&devices[1].device, Going::Left);
    let gone = local.registered(&devices, true);
    let gone: Vec<_> = gone
        .iter()
        .map(|(held, how)| (held.device.user.as_str(), *how))
        .collect();
    assert_eq!(gone, [("u0", Going::Lost), ("u1", Going::Left)]);
    let Device { user, id, .. } = &*devices[2].device;
    let held = local.get(user, id, None).expect("it stayed");
    assert!(held.announced);
    assert!(local.registering.is_empty());
}
