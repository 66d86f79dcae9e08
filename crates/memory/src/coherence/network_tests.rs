use super::*;

fn network(topology: Topology, stops: u16) -> Network {
    Network::new(NetworkConfig {
        topology,
        stops: (0..stops).collect(),
        stop_cycles: 1,
        control_cycles: 1,
        line_cycles: 4,
    })
    .unwrap()
}

/// Cycles of a message that meets no other.
fn alone(topology: &Topology, stops: u16, from: u16, to: u16, has_line: bool) -> u64 {
    let mut network = network(topology.clone(), stops);
    network.send(Cycle(100), Node(from), Node(to), has_line).0 - 100
}

#[test]
fn a_message_alone_takes_the_links_of_its_route() {
    let mesh = Topology::Mesh {
        columns: 3,
        vertical_cycles: 2,
        horizontal_cycles: 5,
    };
    for (from, to, expected) in [
        (0, 1, 5),
        (0, 3, 2),
        (0, 8, 14),
        (8, 0, 14),
        (2, 3, 12),
        (4, 4, 0),
    ] {
        assert_eq!(alone(&mesh, 9, from, to, false), 1 + expected);
        // Within a stop there is no link that a line would keep.
        let tail = if from == to { 0 } else { 3 };
        assert_eq!(alone(&mesh, 9, from, to, true), 1 + expected + tail);
    }
    let ring = Topology::Ring { hop_cycles: 3 };
    for (from, to, hops) in [(0, 1, 1), (0, 4, 1), (0, 2, 2), (4, 1, 2), (3, 1, 2)] {
        assert_eq!(
            alone(&ring, 5, from, to, false),
            1 + 3 * hops,
            "{from} {to}"
        );
    }
    // 0-1-2-3, two stops each, and nobody beside them.
    let sockets = Topology::Sockets {
        socket: vec![0, 0, 1, 1, 2, 2, 3, 3],
        local_cycles: 7,
        links: vec![(0, 1, 100), (2, 1, 200), (2, 3, 400)],
    };
    for (from, to, expected) in [
        (0, 1, 7),
        (0, 2, 107),
        (2, 0, 107),
        (1, 4, 307),
        (7, 0, 707),
    ] {
        assert_eq!(alone(&sockets, 8, from, to, false), 1 + expected);
    }
}

#[test]
fn a_link_carries_one_message_at_a_time() {
    for (topology, other) in [
        (Topology::Crossbar { latency_cycles: 10 }, false),
        (Topology::Bus { latency_cycles: 10 }, true),
    ] {
        let mut network = network(topology, 4);
        let mut send = |from, to| network.send(Cycle(0), Node(from), Node(to), true).0;
        assert_eq!(send(0, 1), 14);
        assert_eq!(send(2, 1), 18);
        assert_eq!(send(2, 3), if other { 22 } else { 14 });
        assert_eq!(network.counters.wait_cycles, if other { 12 } else { 4 });
    }
}

#[test]
fn messages_of_one_pair_stay_in_order() {
    let mut network = network(Topology::Ring { hop_cycles: 1 }, 6);
    // Others leave gaps on the second link that only a short message fits into.
    for at in [7, 4, 1] {
        network.send(Cycle(at), Node(1), Node(2), false);
    }
    let long = network.send(Cycle(0), Node(0), Node(2), true);
    let short = network.send(Cycle(0), Node(0), Node(2), false);
    assert!(long <= short, "{long} {short}");
}

#[test]
fn sockets_without_a_route_are_named() {
    let unreachable = Network::new(NetworkConfig {
        topology: Topology::Sockets {
            socket: vec![0, 1],
            local_cycles: 1,
            links: vec![],
        },
        stops: vec![0, 1],
        stop_cycles: 1,
        control_cycles: 1,
        line_cycles: 1,
    });
    assert_eq!(
        unreachable.unwrap_err(),
        "links: no link leads from socket 0 to socket 1"
    );
}
