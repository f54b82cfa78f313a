//! What must hold of the decoder of sandbox frames, whatever bytes come: the input is the stream.
//!
//! - It does not panic, and what it gives out does not depend on how the bytes are cut.
//! - It gives out what the lines say, looked at one by one: one thing for each, a named refusal where a line is over the
//!   bound, nothing for what has not ended.
//! - A frame of the supervisor comes from a line that begins with S, one of the worker from one that begins with W, one
//!   of a job from one that begins with J and its number; it is within the depth; and what is read is what was written: a frame of the supervisor written again reads the same.
//! - What it holds stays within one line's bound and what was pushed last, and a refusal is short.
//! - A good frame behind any garbage is read.

use belljar_base::limits::Limits;
use belljar_protocol::{Decoder, DroppedLine, FromSandbox, FromSupervisor, depth_exceeds};
use serde::Deserialize;
use serde_json::Value;

/// Bounds of lines and depths: one so small that much is over it, one that real frames are within.
const BOUNDS: [(usize, usize); 2] = [(64, 3), (4096, 128)];
/// What a decoder may hold of lines that it has given out already.
const GIVEN_OUT_BYTES_MAX: usize = 64 * 1024;
/// Two quotations of 200 characters, each written as an escape, and some words.
const REFUSAL_BYTES_MAX: usize = 5_000;

/// Checks one stream.
pub fn check(stream: &[u8]) {
    for (frame_to_bridge_bytes_max, json_depth_max) in BOUNDS {
        let limits = Limits { frame_to_bridge_bytes_max, json_depth_max, ..Limits::default() };
        let whole = decoded(&limits, [stream]);
        assert_eq!(shown(&whole), shown(&one_by_one(&limits, stream)), "the lines, one by one");
        assert_eq!(shown(&whole), shown(&decoded(&limits, stream.chunks(1))), "byte by byte");
        assert_eq!(shown(&whole), shown(&decoded(&limits, uneven_pieces(stream))), "in uneven pieces");
        for (line, frame) in complete_lines(stream).zip(&whole) {
            check_frame(&limits, line, frame);
        }
        let next = decoded(&limits, [stream, b"\nS{\"type\":\"pong\",\"seq\":7}\n"]);
        let pong = FromSupervisor::Pong { seq: 7 };
        assert!(
            matches!(next.last(), Some(Ok(FromSandbox::Supervisor(last))) if *last == pong),
            "a good frame behind it gives {:?}",
            next.last()
        );
    }
}

type Decoded = Result<FromSandbox, DroppedLine>;

fn decoded<'b>(limits: &Limits, pieces: impl IntoIterator<Item = &'b [u8]>) -> Vec<Decoded> {
    let mut decoder = Decoder::new(limits);
    let mut seen = Vec::new();
    for piece in pieces {
        decoder.push(piece);
        seen.extend(std::iter::from_fn(|| decoder.next_frame()));
        // A vector grows to twice what it needs.
        let bytes_max = 2 * (limits.frame_to_bridge_bytes_max + piece.len() + GIVEN_OUT_BYTES_MAX);
        assert!(decoder.held_bytes() <= bytes_max, "{} bytes are held", decoder.held_bytes());
    }
    seen
}

/// Frames are compared as they are shown: the unread arguments of a call have no equality.
fn shown(frames: &[Decoded]) -> Vec<String> {
    frames.iter().map(|frame| format!("{frame:?}")).collect()
}

/// What each line gives by itself, each in a decoder of its own.
fn one_by_one(limits: &Limits, stream: &[u8]) -> Vec<Decoded> {
    let bytes_max = limits.frame_to_bridge_bytes_max;
    let overlong = || Err(DroppedLine::Overlong { bytes_max });
    let mut seen: Vec<Decoded> = Vec::new();
    for line in complete_lines(stream) {
        if line.len() >= bytes_max {
            seen.push(overlong());
        } else {
            let mut alone = decoded(limits, [line, b"\n"]);
            assert_eq!(alone.len(), 1, "one line gives {alone:?}");
            seen.append(&mut alone);
        }
    }
    let unfinished = stream.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
    if unfinished.len() >= bytes_max {
        seen.push(overlong());
    }
    seen
}

fn complete_lines(stream: &[u8]) -> impl Iterator<Item = &[u8]> {
    let end = stream.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    stream[..end].split_inclusive(|byte| *byte == b'\n').map(|line| &line[..line.len() - 1])
}

/// Cut at places that follow from the bytes themselves, so that an input stays a plain stream.
fn uneven_pieces(stream: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = stream;
    std::iter::from_fn(move || {
        let first = *rest.first()?;
        let (piece, behind) = rest.split_at(rest.len().min(1 + usize::from(first) % 37));
        rest = behind;
        Some(piece)
    })
}

fn check_frame(limits: &Limits, line: &[u8], frame: &Decoded) {
    let address = line.first();
    match frame {
        Ok(FromSandbox::Supervisor(frame)) => {
            assert_eq!(address, Some(&b'S'));
            let again = [b"S".to_vec(), serde_json::to_vec(frame).unwrap(), b"\n".to_vec()].concat();
            let roomy = Limits { frame_to_bridge_bytes_max: again.len(), ..limits.clone() };
            let again = decoded(&roomy, [again.as_slice()]);
            assert!(
                matches!(&again[..], [Ok(FromSandbox::Supervisor(other))] if other == frame),
                "{frame:?} becomes {again:?}"
            );
        }
        Ok(FromSandbox::Worker(_)) => assert_eq!(address, Some(&b'W')),
        Ok(FromSandbox::Job(job, _)) => {
            assert_eq!(address, Some(&b'J'));
            assert_eq!(String::from_utf8_lossy(&line[1..json_at(line)]).parse(), Ok(*job));
        }
        Err(dropped) => {
            assert!(dropped.to_string().len() <= REFUSAL_BYTES_MAX, "{dropped}");
            assert_eq!(*dropped == DroppedLine::Depth, is_too_deep(limits, line), "{dropped}");
        }
    }
    if frame.is_ok() {
        assert!(line.len() < limits.frame_to_bridge_bytes_max);
        assert!(nesting(&parsed(&line[json_at(line)..])) <= limits.json_depth_max);
    }
}

/// Where the frame begins, behind its address and the number of a job.
fn json_at(line: &[u8]) -> usize {
    match line {
        [b'J', rest @ ..] => 1 + rest.iter().take_while(|byte| byte.is_ascii_digit()).count(),
        _ => 1,
    }
}

fn parsed(json: &[u8]) -> Value {
    let mut parser = serde_json::Deserializer::from_slice(json);
    parser.disable_recursion_limit();
    Value::deserialize(&mut parser).expect("a frame is JSON")
}

fn nesting(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(nesting).max().unwrap_or(0),
        Value::Object(members) => 1 + members.values().map(nesting).max().unwrap_or(0),
        _ => 0,
    }
}

/// Of a line within the bounds and with an address, as the decoder reads them first.
fn is_too_deep(limits: &Limits, line: &[u8]) -> bool {
    let has_address = match line.first() {
        Some(b'S' | b'W') => true,
        // With a number of at most ten digits.
        Some(b'J') => (2..=11).contains(&json_at(line)),
        _ => false,
    };
    line.len() < limits.frame_to_bridge_bytes_max
        && has_address
        && depth_exceeds(&line[json_at(line)..], limits.json_depth_max)
}
