//! HTTPS, the certificates that are trusted, and proxies: as the environment of the program says.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::json;

use crate::support::Home;
use crate::support::http_fixture::{HttpFixture, read, reply, usual_answer};

/// Made for these tests alone, for `far.test` and the loopback interface.
fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tls").join(name)
}

/// An MCP server over HTTPS.
fn server() -> SocketAddr {
    let certificate = CertificateDer::from_pem_file(fixture("server.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(fixture("server.key")).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let (config, listener) = (Arc::new(config), TcpListener::bind("127.0.0.1:0").unwrap());
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let tls = StreamOwned::new(ServerConnection::new(Arc::clone(&config)).unwrap(), stream);
            std::thread::spawn(move || {
                // A client that does not trust us reads no reply.
                let Some((request, mut tls)) = read(tls) else { return };
                let answer = usual_answer(&request).unwrap_or_default().to_string();
                drop(reply(&mut tls, "200 OK", &[], &answer));
                tls.conn.send_close_notify();
                drop(tls.flush());
            });
        }
    });
    address
}

/// A proxy that leads everything to one place, and what it was asked for.
fn proxy(to: SocketAddr) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let asked = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&asked);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let mut lines = (&mut reader).lines().map_while(Result::ok);
            noted.lock().unwrap().push(lines.next().unwrap_or_default());
            lines.take_while(|line| !line.is_empty()).for_each(drop);
            let far = TcpStream::connect(to).unwrap();
            (&stream).write_all(b"HTTP/1.1 200 Connected\r\n\r\n").unwrap();
            let (mut from_far, mut to_near) = (far.try_clone().unwrap(), stream);
            std::thread::spawn(move || std::io::copy(&mut from_far, &mut to_near));
            std::thread::spawn(move || std::io::copy(&mut reader, &mut &far));
        }
    });
    (address, asked)
}

/// What `doctor` says of the server: it asks those that may want a login.
fn asked(home: &Home) -> String {
    let said = home.run(&["doctor"]).stdout;
    said.lines().find(|line| line.contains("far: ")).unwrap().to_owned()
}

#[test]
fn the_certificates_of_ssl_cert_file_are_trusted() {
    let url = format!("https://{}/mcp", server());
    let home = Home::new().server("far", json!({"url": url}));
    let refused = asked(&home);
    assert!(refused.contains("NOT REACHED") && refused.contains("certificate"), "{refused}");
    let home = home.env("SSL_CERT_FILE", fixture("authority.pem").to_str().unwrap());
    assert!(asked(&home).contains(", answers ("), "{}", asked(&home));
}

#[test]
fn the_proxy_of_the_environment_is_used_unless_no_proxy_names_the_server() {
    let (address, connections) = proxy(server());
    let home = Home::new()
        .server("far", json!({"url": "https://far.test/mcp"}))
        .env("SSL_CERT_FILE", fixture("authority.pem").to_str().unwrap())
        .env("HTTPS_PROXY", &address);
    assert!(asked(&home).contains(", answers ("), "{}", asked(&home));
    assert_eq!(
        connections.lock().unwrap().first().map(String::as_str),
        Some("CONNECT far.test:443 HTTP/1.1")
    );
    connections.lock().unwrap().clear();
    let home = home.env("NO_PROXY", "far.test");
    assert!(asked(&home).contains("NOT REACHED"), "{}", asked(&home));
    assert_eq!(connections.lock().unwrap().len(), 0);
}

#[test]
fn a_server_on_this_machine_is_reached_without_the_proxy() {
    let fixture = HttpFixture::usual(|_, out| reply(out, "405 No", &[], ""));
    let (address, connections) = proxy(server());
    let home = Home::new().server("far", json!({"url": fixture.url}));
    let home = home.env("HTTP_PROXY", &address).env("HTTPS_PROXY", &address).env("ALL_PROXY", &address);
    assert!(asked(&home).contains(", answers ("), "{}", asked(&home));
    assert_eq!(connections.lock().unwrap().len(), 0);
    assert_eq!(fixture.count("initialize"), 1);
}
