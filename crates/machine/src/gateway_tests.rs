use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    ArpOperation, ArpPacket, ArpRepr, DhcpMessageType, DhcpPacket, DhcpRepr, EthernetAddress,
    EthernetFrame, EthernetProtocol, EthernetRepr, Icmpv4Packet, Icmpv4Repr, IpProtocol,
    Ipv4Address, Ipv4Packet, Ipv4Repr, UdpPacket, UdpRepr,
};

use super::{ADDRESS, GUEST_ADDRESS, LEASE_S, MAC, answer};
use crate::testing::Random;

const GUEST: EthernetAddress = EthernetAddress([0x52, 0x54, 0x00, 0x12, 0x34, 0x56]);
const OTHER: Ipv4Address = Ipv4Address::new(10, 0, 2, 99);

fn checksums() -> ChecksumCapabilities {
    ChecksumCapabilities::default()
}

fn frame(to: EthernetAddress, ethertype: EthernetProtocol, payload: &[u8]) -> Vec<u8> {
    let header = EthernetRepr {
        src_addr: GUEST,
        dst_addr: to,
        ethertype,
    };
    let mut frame = vec![0; header.buffer_len()];
    header.emit(&mut EthernetFrame::new_unchecked(&mut frame));
    frame.extend(payload);
    frame
}

fn ip(from: Ipv4Address, to: Ipv4Address, next_header: IpProtocol, payload: &[u8]) -> Vec<u8> {
    let header = Ipv4Repr {
        src_addr: from,
        dst_addr: to,
        next_header,
        payload_len: payload.len(),
        hop_limit: 3,
    };
    let mut packet = vec![0; header.buffer_len()];
    header.emit(&mut Ipv4Packet::new_unchecked(&mut packet), &checksums());
    packet.extend(payload);
    packet
}

fn arp(target: Ipv4Address) -> Vec<u8> {
    let request = ArpRepr::EthernetIpv4 {
        operation: ArpOperation::Request,
        source_hardware_addr: GUEST,
        source_protocol_addr: GUEST_ADDRESS,
        target_hardware_addr: EthernetAddress([0; 6]),
        target_protocol_addr: target,
    };
    let mut packet = vec![0; request.buffer_len()];
    request.emit(&mut ArpPacket::new_unchecked(&mut packet));
    frame(EthernetAddress::BROADCAST, EthernetProtocol::Arp, &packet)
}

fn ping(to: Ipv4Address, data: &[u8]) -> Vec<u8> {
    let request = Icmpv4Repr::EchoRequest {
        ident: 7,
        seq_no: 3,
        data,
    };
    let mut packet = vec![0; request.buffer_len()];
    request.emit(&mut Icmpv4Packet::new_unchecked(&mut packet), &checksums());
    let packet = ip(GUEST_ADDRESS, to, IpProtocol::Icmp, &packet);
    frame(MAC, EthernetProtocol::Ipv4, &packet)
}

fn dhcp(change: impl FnOnce(&mut DhcpRepr)) -> Vec<u8> {
    let mut request = DhcpRepr {
        message_type: DhcpMessageType::Discover,
        transaction_id: 0x1234_5678,
        secs: 1,
        client_hardware_address: GUEST,
        client_ip: Ipv4Address::UNSPECIFIED,
        your_ip: Ipv4Address::UNSPECIFIED,
        server_ip: Ipv4Address::UNSPECIFIED,
        router: None,
        subnet_mask: None,
        relay_agent_ip: Ipv4Address::UNSPECIFIED,
        broadcast: false,
        requested_ip: None,
        client_identifier: Some(GUEST),
        server_identifier: None,
        parameter_request_list: Some(&[1, 3, 6]),
        dns_servers: None,
        max_size: Some(576),
        lease_duration: None,
        renew_duration: None,
        rebind_duration: None,
        additional_options: &[],
    };
    change(&mut request);
    let ports = UdpRepr {
        src_port: 68,
        dst_port: 67,
    };
    let (from, to) = (Ipv4Address::UNSPECIFIED, Ipv4Address::BROADCAST);
    let bytes = request.buffer_len();
    let mut packet = vec![0; ports.header_len() + bytes];
    ports.emit(
        &mut UdpPacket::new_unchecked(&mut packet),
        &from.into(),
        &to.into(),
        bytes,
        |payload| {
            request
                .emit(&mut DhcpPacket::new_unchecked(payload))
                .unwrap()
        },
        &checksums(),
    );
    let packet = ip(from, to, IpProtocol::Udp, &packet);
    frame(EthernetAddress::BROADCAST, EthernetProtocol::Ipv4, &packet)
}

/// The payload of a frame from the gateway to `to`.
fn payload(frame: &[u8], to: EthernetAddress) -> &[u8] {
    let frame = EthernetFrame::new_checked(frame).unwrap();
    assert_eq!((frame.src_addr(), frame.dst_addr()), (MAC, to));
    &frame.into_inner()[14..]
}

/// The payload of an IP packet from the gateway.
fn ip_payload(packet: &[u8], to: Ipv4Address) -> &[u8] {
    let packet = Ipv4Packet::new_checked(packet).unwrap();
    let header = Ipv4Repr::parse(&packet, &checksums()).unwrap();
    assert_eq!((header.src_addr, header.dst_addr), (ADDRESS, to));
    &packet.into_inner()[20..]
}

fn dhcp_answer(request: &[u8], to: (EthernetAddress, Ipv4Address), check: impl Fn(DhcpRepr)) {
    let frame = answer(request).expect("an answer");
    let packet = ip_payload(payload(&frame, to.0), to.1);
    let packet = UdpPacket::new_checked(packet).unwrap();
    let ports = UdpRepr::parse(&packet, &ADDRESS.into(), &to.1.into(), &checksums()).unwrap();
    assert_eq!((ports.src_port, ports.dst_port), (67, 68));
    let packet = DhcpPacket::new_checked(packet.payload()).unwrap();
    let reply = DhcpRepr::parse(&packet).unwrap();
    assert_eq!(reply.transaction_id, 0x1234_5678);
    assert_eq!(reply.server_identifier, Some(ADDRESS));
    check(reply);
}

#[test]
fn the_gateway_says_where_it_is() {
    let frame = answer(&arp(ADDRESS)).unwrap();
    let packet = ArpPacket::new_checked(payload(&frame, GUEST)).unwrap();
    let expected = ArpRepr::EthernetIpv4 {
        operation: ArpOperation::Reply,
        source_hardware_addr: MAC,
        source_protocol_addr: ADDRESS,
        target_hardware_addr: GUEST,
        target_protocol_addr: GUEST_ADDRESS,
    };
    assert_eq!(ArpRepr::parse(&packet), Ok(expected));
    assert_eq!(answer(&arp(OTHER)), None, "nobody else is there");
}

#[test]
fn ping_is_answered() {
    for data in [&b""[..], b"0123456789", &[7; 1472]] {
        let frame = answer(&ping(ADDRESS, data)).unwrap();
        let packet = ip_payload(payload(&frame, GUEST), GUEST_ADDRESS);
        let packet = Icmpv4Packet::new_checked(packet).unwrap();
        let reply = Icmpv4Repr::EchoReply {
            ident: 7,
            seq_no: 3,
            data,
        };
        assert_eq!(Icmpv4Repr::parse(&packet, &checksums()), Ok(reply));
    }
    assert_eq!(answer(&ping(OTHER, b"x")), None);
}

#[test]
fn dhcp_gives_the_address() {
    let directly = (GUEST, GUEST_ADDRESS);
    dhcp_answer(&dhcp(|_| {}), directly, |offer| {
        assert_eq!(offer.message_type, DhcpMessageType::Offer);
        assert_eq!(offer.your_ip, GUEST_ADDRESS);
        assert_eq!(offer.router, Some(ADDRESS));
        assert_eq!(offer.subnet_mask, Some(Ipv4Address::new(255, 255, 255, 0)));
        assert_eq!(offer.lease_duration, Some(LEASE_S));
    });
    let request = dhcp(|request| {
        request.message_type = DhcpMessageType::Request;
        request.requested_ip = Some(GUEST_ADDRESS);
        request.server_identifier = Some(ADDRESS);
    });
    dhcp_answer(&request, directly, |ack| {
        assert_eq!(ack.message_type, DhcpMessageType::Ack);
        assert_eq!(ack.your_ip, GUEST_ADDRESS);
    });
    let renewal = dhcp(|request| {
        request.message_type = DhcpMessageType::Request;
        request.client_ip = GUEST_ADDRESS;
    });
    dhcp_answer(&renewal, directly, |ack| {
        assert_eq!(ack.message_type, DhcpMessageType::Ack);
    });
}

#[test]
fn dhcp_replies_are_broadcast_on_request() {
    let everybody = (EthernetAddress::BROADCAST, Ipv4Address::BROADCAST);
    dhcp_answer(
        &dhcp(|request| request.broadcast = true),
        everybody,
        |offer| {
            assert_eq!(offer.message_type, DhcpMessageType::Offer);
        },
    );
    let wrong = dhcp(|request| {
        request.message_type = DhcpMessageType::Request;
        request.requested_ip = Some(OTHER);
    });
    dhcp_answer(&wrong, everybody, |nak| {
        assert_eq!(nak.message_type, DhcpMessageType::Nak);
        assert_eq!((nak.your_ip, nak.router), (Ipv4Address::UNSPECIFIED, None));
    });
}

#[test]
fn what_is_not_for_the_gateway_is_not_answered() {
    let another_server = dhcp(|request| {
        request.message_type = DhcpMessageType::Request;
        request.requested_ip = Some(GUEST_ADDRESS);
        request.server_identifier = Some(OTHER);
    });
    let release = dhcp(|request| request.message_type = DhcpMessageType::Release);
    let mut to_another = ping(ADDRESS, b"x");
    to_another[0..6].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
    let mut from_a_group = ping(ADDRESS, b"x");
    from_a_group[6] |= 1;
    let mut ipv6 = ping(ADDRESS, b"x");
    ipv6[12..14].copy_from_slice(&[0x86, 0xdd]);
    let mut damaged = ping(ADDRESS, b"x");
    *damaged.last_mut().unwrap() ^= 1;
    for frame in [
        another_server,
        release,
        to_another,
        from_a_group,
        ipv6,
        damaged,
        vec![],
    ] {
        assert_eq!(answer(&frame), None, "{frame:x?}");
    }
}

#[test]
fn random_frames_do_no_harm() {
    let mut random = Random(17);
    let seeds = [arp(ADDRESS), ping(ADDRESS, b"data"), dhcp(|_| {})];
    let mut answered = 0;
    for round in 0..60_000 {
        let mut frame = seeds[round % 3].clone();
        for _ in 0..random.below(4) {
            let at = random.below(frame.len() as u64) as usize;
            frame[at] = random.below(256) as u8;
        }
        if random.below(4) == 0 {
            frame.truncate(random.below(frame.len() as u64 + 1) as usize);
        }
        answered += usize::from(answer(&frame).is_some());
    }
    assert!((10_000..55_000).contains(&answered), "{answered}");
}
