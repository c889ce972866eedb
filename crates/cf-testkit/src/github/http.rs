//! As much of HTTP/1.1 as a client of ours needs from a server.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Instant;

use super::{HeaderMap, Received};

/// Reads the next request of a connection; nothing at its end.
pub(crate) fn read(stream: &mut BufReader<TcpStream>) -> Option<Received> {
    let mut line = String::new();
    stream.read_line(&mut line).ok().filter(|read| *read > 0)?;
    let mut words = line.split_ascii_whitespace();
    let method = words.next()?.to_owned();
    let path = words.next()?.to_owned();
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).ok().filter(|read| *read > 0)?;
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':') {
            headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
        }
    }
    let length = headers
        .get("content-length")
        .and_then(|length| length.parse().ok())
        .unwrap_or(0);
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    Some(Received {
        at: Instant::now(),
        method,
        path,
        headers,
        body: String::from_utf8_lossy(&body).into_owned(),
    })
}

/// Has another server answer, and returns its reply as it came. In the older version of the protocol, in which a reply
/// ends with its connection.
pub(super) fn forward(to: SocketAddr, request: &Received, code: u16) -> Vec<u8> {
    let mut head = format!("{} {} HTTP/1.0\r\n", request.method, request.path);
    for (name, value) in &request.headers {
        if !["host", "connection", "accept-encoding"].contains(&name.as_str()) {
            let _ = write!(head, "{name}: {value}\r\n");
        }
    }
    let _ = write!(head, "host: {to}\r\nprefer: code={code}\r\n\r\n");
    let mut reply = Vec::new();
    let asked = TcpStream::connect(to).and_then(|mut stream| {
        stream.write_all(head.as_bytes())?;
        stream.read_to_end(&mut reply)
    });
    if let Err(error) = asked {
        return Reply::json(502, &serde_json::json!({ "message": error.to_string() })).bytes();
    }
    reply
}

/// A reply.
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
}

impl Reply {
    pub(super) fn json(status: u16, body: &serde_json::Value) -> Self {
        Self {
            status,
            headers: HeaderMap::from([(
                "content-type".to_owned(),
                "application/json; charset=utf-8".to_owned(),
            )]),
            body: body.to_string().into_bytes(),
        }
    }

    /// The bytes of the reply.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut head = format!("HTTP/1.1 {} -\r\n", self.status);
        for (name, value) in &self.headers {
            let _ = write!(head, "{name}: {value}\r\n");
        }
        let _ = write!(head, "content-length: {}\r\n\r\n", self.body.len());
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(&self.body);
        bytes
    }
}
