use super::driver::{Driver, Part, get, machine_with};
use crate::{Machine, Network};

const BUFFER: u64 = 0x8_0000;
const INCOMING: u64 = 0x9_0000;
const RECEIVE: u64 = 0;
const SEND: u64 = 1;
const HEADER: [u8; 12] = [0; 12];
/// What the header of a received frame says: it is in one buffer.
const RECEIVED: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0];

fn machine(network: Network) -> (Machine, Driver) {
    let mut machine = machine_with(|config| config.network = Some(network));
    let driver = Driver::start(&mut machine, 0);
    (machine, driver)
}

fn send(machine: &mut Machine, driver: &mut Driver, frame: &[u8]) {
    let parts = [Part::Give(BUFFER, &HEADER), Part::Give(BUFFER + 64, frame)];
    assert_eq!(driver.request(machine, SEND, &parts), 0);
}

/// Who has 10.0.2.2? 10.0.2.15 asks.
fn arp_request() -> Vec<u8> {
    let guest = [0x52, 0x54, 0x00, 0x12, 0x34, 0x56];
    let mut frame = vec![0xff; 6];
    frame.extend(guest);
    frame.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
    frame.extend(guest);
    frame.extend([10, 0, 2, 15, 0, 0, 0, 0, 0, 0, 10, 0, 2, 2]);
    frame
}

#[test]
fn the_gateway_replies_at_once() {
    let (mut machine, mut driver) = machine(Network::Gateway);
    driver.queue(&mut machine, RECEIVE, 0, &[Part::Take(INCOMING, 1526)]);
    driver.notify(&mut machine, RECEIVE);
    assert_eq!(driver.take_used(&mut machine, RECEIVE), None);
    send(&mut machine, &mut driver, &arp_request());
    assert_eq!(driver.take_used(&mut machine, RECEIVE), Some((0, 12 + 42)));
    assert_eq!(get(&machine, INCOMING, 12), RECEIVED);
    let frame = get(&machine, INCOMING + 12, 42);
    assert_eq!(frame[..6], [0x52, 0x54, 0x00, 0x12, 0x34, 0x56]);
    assert_eq!(frame[20..22], [0, 2], "a reply");
    assert_eq!(frame[28..32], [10, 0, 2, 2]);
    assert!(machine.take_frames().is_empty());
}

#[test]
fn an_answer_waits_for_a_buffer() {
    let (mut machine, mut driver) = machine(Network::Gateway);
    send(&mut machine, &mut driver, &arp_request());
    assert_eq!(driver.take_used(&mut machine, RECEIVE), None);
    driver.queue(&mut machine, RECEIVE, 0, &[Part::Take(INCOMING, 1526)]);
    driver.notify(&mut machine, RECEIVE);
    assert_eq!(driver.take_used(&mut machine, RECEIVE), Some((0, 54)));
}

#[test]
fn a_wire_carries_frames_both_ways() {
    let (mut machine, mut driver) = machine(Network::Wire);
    send(&mut machine, &mut driver, b"one");
    send(&mut machine, &mut driver, b"two");
    assert_eq!(machine.take_frames(), [b"one", b"two"]);
    assert!(machine.take_frames().is_empty());
    machine.push_frame(b"three".to_vec());
    driver.queue(&mut machine, RECEIVE, 0, &[Part::Take(INCOMING, 17)]);
    driver.queue(&mut machine, RECEIVE, 1, &[Part::Take(INCOMING + 64, 1526)]);
    driver.notify(&mut machine, RECEIVE);
    machine.push_frame(vec![4; 1514]);
    assert_eq!(driver.take_used(&mut machine, RECEIVE), Some((0, 17)));
    assert_eq!(driver.take_used(&mut machine, RECEIVE), Some((1, 1526)));
    assert_eq!(get(&machine, INCOMING + 12, 5), b"three");
    assert_eq!(get(&machine, INCOMING + 64 + 12, 1514), [4; 1514]);
}

#[test]
fn frames_that_do_not_fit_and_too_many_are_lost() {
    let (mut machine, mut driver) = machine(Network::Wire);
    machine.push_frame(vec![1; 100]);
    machine.push_frame(vec![2; 5]);
    driver.queue(&mut machine, RECEIVE, 0, &[Part::Take(INCOMING, 12 + 99)]);
    driver.notify(&mut machine, RECEIVE);
    assert_eq!(driver.take_used(&mut machine, RECEIVE), Some((0, 17)));
    driver.queue(&mut machine, RECEIVE, 0, &[Part::Take(INCOMING, 12 + 99)]);
    machine.push_frame(vec![1; 100]);
    let empty = Some((0, 12));
    assert_eq!(driver.take_used(&mut machine, RECEIVE), empty);

    for _ in 0..300 {
        machine.push_frame(vec![3; 10]);
        send(&mut machine, &mut driver, b"x");
    }
    assert_eq!(machine.take_frames().len(), 256);
    let mut received = 0;
    loop {
        driver.queue(&mut machine, RECEIVE, 0, &[Part::Take(INCOMING, 100)]);
        driver.notify(&mut machine, RECEIVE);
        if driver.take_used(&mut machine, RECEIVE).is_none() {
            break;
        }
        received += 1;
    }
    assert_eq!(received, 256);
}

#[test]
fn frames_that_no_network_carries_are_lost() {
    let (mut machine, mut driver) = machine(Network::Wire);
    let long = vec![1; 65_536 + 14];
    send(&mut machine, &mut driver, &long);
    assert!(machine.take_frames().is_empty());
    send(&mut machine, &mut driver, &long[1..]);
    assert_eq!(machine.take_frames(), [&long[1..]]);
    machine.push_frame(long.clone());
    driver.queue(&mut machine, RECEIVE, 0, &[Part::Take(INCOMING, 0x1_8000)]);
    driver.notify(&mut machine, RECEIVE);
    assert_eq!(driver.take_used(&mut machine, RECEIVE), None);
}

#[test]
fn requests_without_room_for_a_header_break_the_device() {
    for queue in [RECEIVE, SEND] {
        let (mut machine, mut driver) = machine(Network::Wire);
        machine.push_frame(b"frame".to_vec());
        let part = match queue {
            RECEIVE => Part::Take(INCOMING, 11),
            _ => Part::Give(BUFFER, &HEADER[..11]),
        };
        driver.queue(&mut machine, queue, 0, &[part]);
        driver.notify(&mut machine, queue);
        assert!(driver.has_broken(&mut machine, 0));
    }
}

#[test]
fn the_card_has_an_address_and_a_link() {
    let (mut machine, driver) = machine(Network::Gateway);
    assert_eq!(driver.load(&mut machine, 0x100), 0x1200_5452);
    assert_eq!(driver.load(&mut machine, 0x104), 0x0001_5634);
}

#[test]
fn without_a_card_frames_are_lost() {
    let mut machine = crate::testing::machine();
    machine.push_frame(b"frame".to_vec());
    assert!(machine.take_frames().is_empty());
}
