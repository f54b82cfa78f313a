//! Owns one sandbox from handshake to death; it renders nothing.
