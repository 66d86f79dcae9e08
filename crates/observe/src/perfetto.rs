//! The format of Perfetto (ui.perfetto.dev): packets of `perfetto_trace.proto`, one after the other.
//!
//! Tracks lie within tracks. Times are nanoseconds; events of different tracks may be written in any
//! order.

use std::io::{self, Write};

use prost::Message;

/// The messages, with the fields that are written here; numbers as in `perfetto_trace.proto`.
pub mod proto {
    #![allow(missing_docs, reason = "as in perfetto_trace.proto")]

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Trace {
        #[prost(message, repeated, tag = "1")]
        pub packet: Vec<TracePacket>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct TracePacket {
        #[prost(uint64, optional, tag = "8")]
        pub timestamp: Option<u64>,
        #[prost(uint32, tag = "10")]
        pub trusted_packet_sequence_id: u32,
        #[prost(message, optional, tag = "11")]
        pub track_event: Option<TrackEvent>,
        #[prost(uint32, tag = "13")]
        pub sequence_flags: u32,
        #[prost(message, optional, tag = "60")]
        pub track_descriptor: Option<TrackDescriptor>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct TrackDescriptor {
        #[prost(uint64, tag = "1")]
        pub uuid: u64,
        #[prost(string, tag = "2")]
        pub name: String,
        #[prost(uint64, optional, tag = "5")]
        pub parent_uuid: Option<u64>,
        #[prost(message, optional, tag = "8")]
        pub counter: Option<CounterDescriptor>,
        #[prost(enumeration = "ChildTracksOrdering", tag = "11")]
        pub child_ordering: i32,
        #[prost(int32, tag = "12")]
        pub sibling_order_rank: i32,
    }

    #[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
    #[repr(i32)]
    pub enum ChildTracksOrdering {
        Unknown = 0,
        Explicit = 3,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct CounterDescriptor {
        #[prost(string, tag = "6")]
        pub unit_name: String,
        #[prost(string, tag = "7")]
        pub y_axis_share_key: String,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct TrackEvent {
        #[prost(message, repeated, tag = "4")]
        pub debug_annotations: Vec<DebugAnnotation>,
        #[prost(enumeration = "Type", tag = "9")]
        pub r#type: i32,
        #[prost(uint64, tag = "11")]
        pub track_uuid: u64,
        #[prost(string, optional, tag = "23")]
        pub name: Option<String>,
        #[prost(double, optional, tag = "44")]
        pub double_counter_value: Option<f64>,
    }

    #[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
    #[repr(i32)]
    pub enum Type {
        Unspecified = 0,
        SliceBegin = 1,
        SliceEnd = 2,
        Instant = 3,
        Counter = 4,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct DebugAnnotation {
        #[prost(uint64, optional, tag = "3")]
        pub uint_value: Option<u64>,
        #[prost(string, optional, tag = "6")]
        pub string_value: Option<String>,
        #[prost(string, tag = "10")]
        pub name: String,
    }
}

use proto::{
    ChildTracksOrdering, CounterDescriptor, DebugAnnotation, Trace, TracePacket, TrackDescriptor,
    TrackEvent, Type,
};

/// All events come from one writer.
const SEQUENCE: u32 = 1;
/// Nothing that packets refer to was written before.
const INCREMENTAL_STATE_CLEARED: u32 = 1;

/// A track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Track(u64);

/// Something that is said of an event.
pub struct Note {
    name: &'static str,
    value: Value,
}

enum Value {
    Number(u64),
    Text(String),
}

impl Note {
    /// A number.
    #[must_use]
    pub fn number(name: &'static str, value: u64) -> Self {
        let value = Value::Number(value);
        Self { name, value }
    }

    /// A text.
    #[must_use]
    pub fn text(name: &'static str, value: String) -> Self {
        let value = Value::Text(value);
        Self { name, value }
    }
}

/// Writes a trace.
pub struct Perfetto<W> {
    out: W,
    tracks: u64,
    failed: Option<io::Error>,
}

impl<W: Write> Perfetto<W> {
    /// A trace that goes to `out`.
    pub fn new(out: W) -> Self {
        let mut trace = Self {
            out,
            tracks: 0,
            failed: None,
        };
        trace.write(TracePacket {
            sequence_flags: INCREMENTAL_STATE_CLEARED,
            ..TracePacket::default()
        });
        trace
    }

    /// A track of slices and instants, the next within `parent`.
    pub fn track(&mut self, name: String, parent: Option<Track>) -> Track {
        self.new_track(name, parent, None)
    }

    /// A track of numbers in `unit`, the next within `parent`. All of one unit are drawn to one scale.
    pub fn counter_track(&mut self, name: String, unit: &str, parent: Option<Track>) -> Track {
        let counter = CounterDescriptor {
            unit_name: unit.to_owned(),
            y_axis_share_key: unit.to_owned(),
        };
        self.new_track(name, parent, Some(counter))
    }

    fn new_track(
        &mut self,
        name: String,
        parent: Option<Track>,
        counter: Option<CounterDescriptor>,
    ) -> Track {
        self.tracks += 1;
        let track_descriptor = TrackDescriptor {
            uuid: self.tracks,
            name,
            parent_uuid: parent.map(|Track(uuid)| uuid),
            counter,
            child_ordering: ChildTracksOrdering::Explicit.into(),
            // In the order in which they are made.
            sibling_order_rank: self.tracks as i32,
        };
        self.write(TracePacket {
            track_descriptor: Some(track_descriptor),
            ..TracePacket::default()
        });
        Track(self.tracks)
    }

    /// A slice begins.
    pub fn begin(&mut self, ns: u64, track: Track, name: &str, notes: Vec<Note>) {
        self.event(ns, track, Type::SliceBegin, Some(name), notes, None);
    }

    /// The slice that began last ends.
    pub fn end(&mut self, ns: u64, track: Track) {
        self.event(ns, track, Type::SliceEnd, None, Vec::new(), None);
    }

    /// Something happens that takes no time.
    pub fn instant(&mut self, ns: u64, track: Track, name: &str, notes: Vec<Note>) {
        self.event(ns, track, Type::Instant, Some(name), notes, None);
    }

    /// The value of a counter from now on.
    pub fn count(&mut self, ns: u64, track: Track, value: f64) {
        self.event(ns, track, Type::Counter, None, Vec::new(), Some(value));
    }

    /// Whether it is of no use to continue.
    pub fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// Writes what is still held back.
    ///
    /// # Errors
    /// What could not be written.
    pub fn finish(mut self) -> io::Result<()> {
        match self.failed {
            Some(error) => Err(error),
            None => self.out.flush(),
        }
    }

    fn event(
        &mut self,
        ns: u64,
        track: Track,
        kind: Type,
        name: Option<&str>,
        notes: Vec<Note>,
        double_counter_value: Option<f64>,
    ) {
        let annotation = |Note { name, value }| {
            let (uint_value, string_value) = match value {
                Value::Number(number) => (Some(number), None),
                Value::Text(text) => (None, Some(text)),
            };
            DebugAnnotation {
                uint_value,
                string_value,
                name: name.to_owned(),
            }
        };
        let track_event = TrackEvent {
            debug_annotations: notes.into_iter().map(annotation).collect(),
            r#type: kind.into(),
            track_uuid: track.0,
            name: name.map(str::to_owned),
            double_counter_value,
        };
        self.write(TracePacket {
            timestamp: Some(ns),
            track_event: Some(track_event),
            ..TracePacket::default()
        });
    }

    fn write(&mut self, mut packet: TracePacket) {
        if self.failed.is_some() {
            return;
        }
        packet.trusted_packet_sequence_id = SEQUENCE;
        // Messages one after the other are one message with the packets of all.
        let trace = Trace {
            packet: vec![packet],
        };
        self.failed = self.out.write_all(&trace.encode_to_vec()).err();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_read_back_as_one_trace() {
        let mut bytes = Vec::new();
        let mut trace = Perfetto::new(&mut bytes);
        let core = trace.track("core 0".into(), None);
        let context = trace.track("context 0".into(), Some(core));
        let ipc = trace.counter_track("IPC".into(), "instructions/cycle", Some(core));
        trace.begin(10, context, "user", vec![Note::number("cycle", 12)]);
        trace.instant(11, context, "trap", vec![Note::text("pc", "0x80".into())]);
        trace.count(12, ipc, 0.5);
        trace.end(20, context);
        trace.finish().unwrap();
        let packets = Trace::decode(bytes.as_slice()).unwrap().packet;
        assert!(
            packets
                .iter()
                .all(|packet| packet.trusted_packet_sequence_id == SEQUENCE)
        );
        assert_eq!(packets[0].sequence_flags, INCREMENTAL_STATE_CLEARED);
        let tracks: Vec<_> = packets[1..4]
            .iter()
            .map(|packet| {
                let track = packet.track_descriptor.as_ref().unwrap();
                (track.uuid, track.parent_uuid, track.counter.is_some())
            })
            .collect();
        assert_eq!(
            tracks,
            [(1, None, false), (2, Some(1), false), (3, Some(1), true)]
        );
        let events: Vec<_> = packets[4..]
            .iter()
            .map(|packet| {
                let event = packet.track_event.as_ref().unwrap();
                (
                    packet.timestamp.unwrap(),
                    event.track_uuid,
                    event.r#type(),
                    event.double_counter_value,
                )
            })
            .collect();
        let expected = [
            (10, 2, Type::SliceBegin, None),
            (11, 2, Type::Instant, None),
            (12, 3, Type::Counter, Some(0.5)),
            (20, 2, Type::SliceEnd, None),
        ];
        assert_eq!(events, expected);
    }

    #[test]
    fn a_full_disk_is_told_at_the_end() {
        let mut room = [0; 20];
        let mut trace = Perfetto::new(&mut room[..]);
        trace.track("longer than there is room for".into(), None);
        assert!(trace.has_failed());
        assert!(trace.finish().is_err());
    }
}
