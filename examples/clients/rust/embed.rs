//! Embeds texts with Rust's standard library, and compares the first two:
//!
//!     rustc --edition 2021 -O embed.rs && ./embed http://localhost:8080 "A cat sleeps." "A kitten naps."
//!
//! The environment variable API_KEY is the server's key, if it has one. The library has neither
//! HTTP nor JSON, so the request is written by hand, and the vectors come as bytes: float32,
//! little-endian, one text after the other. An application takes a crate such as ureq or reqwest.

use std::error::Error;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::{env, process, thread, time::Duration};

const TRIES: u32 = 5;

struct Response {
    status: u16,
    retry_after: u64, // seconds
    body: Vec<u8>,
}

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    if arguments.len() < 3 {
        fail("usage: embed URL TEXT TEXT …");
    }
    let vectors =
        embed(&arguments[0], &arguments[1..]).unwrap_or_else(|error| fail(&error.to_string()));
    println!(
        "{} vectors of {} dimensions; cosine of the first two: {:.6}",
        vectors.len(),
        vectors[0].len(),
        cosine(&vectors[0], &vectors[1])
    );
}

/// Returns a vector for each text. Repeats a request that the server has no room for.
fn embed(url: &str, texts: &[String]) -> Result<Vec<Vec<f32>>, Box<dyn Error>> {
    let quoted: Vec<String> = texts.iter().map(|text| quote(text)).collect();
    let body = format!("{{\"inputs\":[{}]}}", quoted.join(","));
    for attempt in 1.. {
        let response = post(url, "/embed", &body)?;
        match response.status {
            200 => return Ok(vectors(&response.body, texts.len())),
            429 | 503 if attempt < TRIES => {
                thread::sleep(Duration::from_secs(response.retry_after))
            }
            // The error is JSON; a program reads its field "code".
            status => {
                let message = String::from_utf8_lossy(&response.body);
                return Err(format!("status {}: {}", status, message).into());
            }
        }
    }
    unreachable!()
}

/// Sends JSON over a connection of its own, whose end is the end of the response.
fn post(url: &str, path: &str, body: &str) -> Result<Response, Box<dyn Error>> {
    let host = url
        .strip_prefix("http://")
        .ok_or("the URL must begin with http://")?
        .trim_end_matches('/');
    let key = env::var("API_KEY")
        .map(|key| format!("authorization: Bearer {}\r\n", key))
        .unwrap_or_default();
    let mut connection = TcpStream::connect(host)?;
    write!(
        connection,
        "POST {} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ncontent-type: application/json\r\n\
         accept: application/octet-stream\r\n{}content-length: {}\r\n\r\n{}",
        path,
        host,
        key,
        body.len(),
        body
    )?;
    let mut received = Vec::new();
    connection.read_to_end(&mut received)?;
    let end = received
        .windows(4)
        .position(|bytes| bytes == b"\r\n\r\n")
        .ok_or("no response")?;
    let head = String::from_utf8_lossy(&received[..end]).to_lowercase();
    let retry_after = head
        .lines()
        .find_map(|line| line.strip_prefix("retry-after: "));
    Ok(Response {
        status: head.split(' ').nth(1).ok_or("no status")?.parse()?,
        retry_after: retry_after
            .and_then(|seconds| seconds.parse().ok())
            .unwrap_or(1),
        body: received.split_off(end + 4),
    })
}

fn vectors(body: &[u8], count: usize) -> Vec<Vec<f32>> {
    let number = |bytes: &[u8]| f32::from_le_bytes(bytes.try_into().unwrap());
    body.chunks(body.len() / count)
        .map(|row| row.chunks(4).map(number).collect())
        .collect()
}

/// Writes a text as JSON.
fn quote(text: &str) -> String {
    let escaped: String = text
        .chars()
        .map(|c| match c {
            '"' | '\\' => format!("\\{}", c),
            c if c < ' ' => format!("\\u{:04x}", c as u32),
            c => c.to_string(),
        })
        .collect();
    format!("\"{}\"", escaped)
}

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot =
        |a: &[f32], b: &[f32]| -> f64 { a.iter().zip(b).map(|(x, y)| *x as f64 * *y as f64).sum() };
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

fn fail(message: &str) -> ! {
    eprintln!("{}", message);
    process::exit(1)
}
