//! The other end of the network cable: a gateway that answers ARP, ping and DHCP, and nothing else.
//!
//! Addresses are those of QEMU's user network. It has no memory: what it answers follows from what
//! it is asked, so it is the same in each run and there is nothing to save.

use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    ArpOperation, ArpPacket, ArpRepr, DhcpMessageType, DhcpPacket, DhcpRepr, EthernetAddress,
    EthernetFrame, EthernetProtocol, EthernetRepr, Icmpv4Packet, Icmpv4Repr, IpAddress, IpProtocol,
    Ipv4Address, Ipv4Packet, Ipv4Repr, UdpPacket, UdpRepr,
};

const MAC: EthernetAddress = EthernetAddress([0x52, 0x55, 0x0a, 0x00, 0x02, 0x02]);
const ADDRESS: Ipv4Address = Ipv4Address::new(10, 0, 2, 2);
const NETMASK: Ipv4Address = Ipv4Address::new(255, 255, 255, 0);
/// What DHCP gives to whoever asks: there is one guest.
const GUEST_ADDRESS: Ipv4Address = Ipv4Address::new(10, 0, 2, 15);
/// A day, as QEMU's.
const LEASE_S: u32 = 86_400;
const DHCP_SERVER_PORT: u16 = 67;
const DHCP_CLIENT_PORT: u16 = 68;
const HOP_LIMIT: u8 = 64;

/// What the gateway sends when it gets `frame`.
pub(crate) fn answer(frame: &[u8]) -> Option<Vec<u8>> {
    let frame = EthernetFrame::new_checked(frame).ok()?;
    let to_us = frame.dst_addr() == MAC || frame.dst_addr().is_broadcast();
    if !to_us || !frame.src_addr().is_unicast() {
        return None;
    }
    match frame.ethertype() {
        EthernetProtocol::Arp => answer_arp(frame.payload()),
        EthernetProtocol::Ipv4 => answer_ip(frame.src_addr(), frame.payload()),
        _ => None,
    }
}

fn answer_arp(packet: &[u8]) -> Option<Vec<u8>> {
    let packet = ArpPacket::new_checked(packet).ok()?;
    let ArpRepr::EthernetIpv4 {
        operation: ArpOperation::Request,
        source_hardware_addr,
        source_protocol_addr,
        target_protocol_addr: ADDRESS,
        ..
    } = ArpRepr::parse(&packet).ok()?
    else {
        return None;
    };
    let reply = ArpRepr::EthernetIpv4 {
        operation: ArpOperation::Reply,
        source_hardware_addr: MAC,
        source_protocol_addr: ADDRESS,
        target_hardware_addr: source_hardware_addr,
        target_protocol_addr: source_protocol_addr,
    };
    let to = source_hardware_addr;
    let mut frame = ethernet(to, EthernetProtocol::Arp, reply.buffer_len());
    let mut ethernet = EthernetFrame::new_unchecked(&mut frame);
    reply.emit(&mut ArpPacket::new_unchecked(ethernet.payload_mut()));
    Some(frame)
}

fn answer_ip(from: EthernetAddress, packet: &[u8]) -> Option<Vec<u8>> {
    let packet = Ipv4Packet::new_checked(packet).ok()?;
    let header = Ipv4Repr::parse(&packet, &ChecksumCapabilities::default()).ok()?;
    let to_us = header.dst_addr == ADDRESS || header.dst_addr.is_broadcast();
    match header.next_header {
        IpProtocol::Icmp if to_us => answer_echo(from, &header, packet.payload()),
        IpProtocol::Udp if to_us => answer_dhcp(from, &header, packet.payload()),
        _ => None,
    }
}

fn answer_echo(from: EthernetAddress, header: &Ipv4Repr, packet: &[u8]) -> Option<Vec<u8>> {
    let checksums = ChecksumCapabilities::default();
    let packet = Icmpv4Packet::new_checked(packet).ok()?;
    let Icmpv4Repr::EchoRequest {
        ident,
        seq_no,
        data,
    } = Icmpv4Repr::parse(&packet, &checksums).ok()?
    else {
        return None;
    };
    let reply = Icmpv4Repr::EchoReply {
        ident,
        seq_no,
        data,
    };
    let to = (from, header.src_addr);
    Some(ip(to, IpProtocol::Icmp, reply.buffer_len(), |payload| {
        reply.emit(&mut Icmpv4Packet::new_unchecked(payload), &checksums);
    }))
}

fn answer_dhcp(from: EthernetAddress, header: &Ipv4Repr, packet: &[u8]) -> Option<Vec<u8>> {
    let checksums = ChecksumCapabilities::default();
    let (source, target) = (header.src_addr.into(), header.dst_addr.into());
    let packet = UdpPacket::new_checked(packet).ok()?;
    let ports = UdpRepr::parse(&packet, &source, &target, &checksums).ok()?;
    if ports.dst_port != DHCP_SERVER_PORT {
        return None;
    }
    let packet = DhcpPacket::new_checked(packet.payload()).ok()?;
    let request = DhcpRepr::parse(&packet).ok()?;
    let reply = dhcp_reply(&request)?;
    let broadcast = request.broadcast || reply.message_type == DhcpMessageType::Nak;
    let to = if broadcast {
        (EthernetAddress::BROADCAST, Ipv4Address::BROADCAST)
    } else {
        (from, GUEST_ADDRESS)
    };
    let ports = UdpRepr {
        src_port: DHCP_SERVER_PORT,
        dst_port: DHCP_CLIENT_PORT,
    };
    let bytes = reply.buffer_len();
    let udp_bytes = ports.header_len() + bytes;
    Some(ip(to, IpProtocol::Udp, udp_bytes, |payload| {
        let emit = |payload: &mut [u8]| {
            let emitted = reply.emit(&mut DhcpPacket::new_unchecked(payload));
            emitted.expect("as long as it says it is");
        };
        let mut packet = UdpPacket::new_unchecked(payload);
        let (source, target): (IpAddress, IpAddress) = (ADDRESS.into(), to.1.into());
        ports.emit(&mut packet, &source, &target, bytes, emit, &checksums);
    }))
}

/// Every guest gets the one address; who insists on another is told off.
fn dhcp_reply<'a>(request: &DhcpRepr) -> Option<DhcpRepr<'a>> {
    let for_us = request.server_identifier.is_none_or(|ip| ip == ADDRESS);
    let message_type = match request.message_type {
        DhcpMessageType::Discover => DhcpMessageType::Offer,
        DhcpMessageType::Request if for_us => {
            let asked = request.requested_ip.unwrap_or(request.client_ip);
            if asked == GUEST_ADDRESS {
                DhcpMessageType::Ack
            } else {
                DhcpMessageType::Nak
            }
        }
        _ => return None,
    };
    let given = message_type != DhcpMessageType::Nak;
    Some(DhcpRepr {
        message_type,
        transaction_id: request.transaction_id,
        secs: 0,
        client_hardware_address: request.client_hardware_address,
        client_ip: Ipv4Address::UNSPECIFIED,
        your_ip: if given {
            GUEST_ADDRESS
        } else {
            Ipv4Address::UNSPECIFIED
        },
        server_ip: ADDRESS,
        router: given.then_some(ADDRESS),
        subnet_mask: given.then_some(NETMASK),
        relay_agent_ip: request.relay_agent_ip,
        broadcast: request.broadcast,
        requested_ip: None,
        client_identifier: None,
        server_identifier: Some(ADDRESS),
        parameter_request_list: None,
        dns_servers: None,
        max_size: None,
        lease_duration: given.then_some(LEASE_S),
        renew_duration: None,
        rebind_duration: None,
        additional_options: &[],
    })
}

/// A frame from us with room for a payload.
fn ethernet(to: EthernetAddress, ethertype: EthernetProtocol, payload_bytes: usize) -> Vec<u8> {
    let header = EthernetRepr {
        src_addr: MAC,
        dst_addr: to,
        ethertype,
    };
    let mut frame = vec![0; header.buffer_len() + payload_bytes];
    header.emit(&mut EthernetFrame::new_unchecked(&mut frame));
    frame
}

/// A frame from us that carries an IP packet.
fn ip(
    (mac, address): (EthernetAddress, Ipv4Address),
    next_header: IpProtocol,
    payload_len: usize,
    emit: impl FnOnce(&mut [u8]),
) -> Vec<u8> {
    let header = Ipv4Repr {
        src_addr: ADDRESS,
        dst_addr: address,
        next_header,
        payload_len,
        hop_limit: HOP_LIMIT,
    };
    let bytes = header.buffer_len() + payload_len;
    let mut frame = ethernet(mac, EthernetProtocol::Ipv4, bytes);
    let mut ethernet = EthernetFrame::new_unchecked(&mut frame);
    let mut packet = Ipv4Packet::new_unchecked(ethernet.payload_mut());
    header.emit(&mut packet, &ChecksumCapabilities::default());
    emit(packet.payload_mut());
    frame
}

#[cfg(test)]
#[path = "gateway_tests.rs"]
mod tests;
