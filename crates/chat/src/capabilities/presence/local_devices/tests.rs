use super::*;

fn user(at: usize) -> UserId {
    UserId::new(format!("u{at}")).expect("a valid id")
}

fn api(at: usize) -> Device {
    Device::without_socket(user(at), DeviceId::new("api").expect("a valid id"))
}

fn socket(at: usize) -> LocalDevice {
    let socket = SocketId::new(format!("s{at}")).expect("a valid id");
    LocalDevice {
        device: Device::with_socket(user(at), socket).into(),
        connected_at: Timestamp(1),
        known_to_store: false,
    }
}

#[test]
fn beats_without_a_socket_are_refused_when_too_many_wait() {
    let mut local = LocalDevices::default();
    for at in 0..MAX_BUFFERED_HEARTBEATS {
        assert!(local.try_buffer_heartbeat(&api(at), Timestamp(1)));
    }
    assert!(!local.try_buffer_heartbeat(&api(MAX_BUFFERED_HEARTBEATS), Timestamp(1)));
    assert!(
        local.try_buffer_heartbeat(&api(0), Timestamp(2)),
        "already buffered"
    );
    local.insert(socket(0));
    assert!(
        local.try_buffer_heartbeat(&socket(0).device, Timestamp(1)),
        "never rejected"
    );

    // In-flight heartbeats keep their room: they may be returned to the buffer.
    let beats = local.start_flush();
    assert!(!local.try_buffer_heartbeat(&api(MAX_BUFFERED_HEARTBEATS), Timestamp(1)));
    local.return_unwritten(&beats);
    assert!(!local.try_buffer_heartbeat(&api(MAX_BUFFERED_HEARTBEATS), Timestamp(1)));
    local.start_flush();
    assert!(local.finish_flush(Vec::new()).is_empty());
    assert!(local.try_buffer_heartbeat(&api(MAX_BUFFERED_HEARTBEATS), Timestamp(1)));
}

#[test]
fn pending_departures_and_closes_are_limited() {
    let mut local = LocalDevices::default();
    for at in 0..3 * MAX_DEFERRED_DEPARTURES {
        local.defer_departures([(socket(at), Departure::ConnectionLost)]);
        local.queue_socket_close(socket(at).device);
    }
    assert_eq!(
        local.take_deferred_departures().len(),
        MAX_DEFERRED_DEPARTURES
    );
    let closing = std::iter::from_fn(|| local.pop_socket_to_close());
    assert_eq!(closing.count(), MAX_SOCKETS_TO_CLOSE);
}

#[test]
fn sockets_closed_during_an_outage_leave_no_pending_registration() {
    let mut local = LocalDevices::default();
    for at in 0..100 {
        let held = socket(at);
        local.insert(held.clone());
        local.queue_registrations([device_key(&held.device), device_key(&held.device)]);
        if at % 2 == 0 {
            local.remove(&held.device, Departure::ConnectionLost);
        }
    }
    local.queue_all_registrations();
    assert_eq!(local.registration_queue.len(), 50);
    assert_eq!(local.take_registrations(20).len(), 20);
    assert_eq!(local.take_registrations(100).len(), 30);
    assert!(!local.has_queued_registrations());
}

#[test]
fn a_departure_during_registration_is_recorded() {
    let mut local = LocalDevices::default();
    let devices = [socket(0), socket(1), socket(2)];
    for held in &devices {
        local.insert(held.clone());
    }
    local.start_registration(&devices);
    local.remove(&devices[0].device, Departure::ConnectionLost);
    local.remove(&devices[1].device, Departure::Disconnected);
    let gone = local.finish_registration(&devices, true);
    let gone: Vec<_> = gone
        .iter()
        .map(|(held, how)| (held.device.user.as_str(), *how))
        .collect();
    assert_eq!(
        gone,
        [
            ("u0", Departure::ConnectionLost),
            ("u1", Departure::Disconnected)
        ]
    );
    let held = local.find(&device_key(&devices[2].device));
    let held = held.expect("it stayed");
    assert!(held.known_to_store);
    assert!(local.registrations_in_flight.is_empty());
}
