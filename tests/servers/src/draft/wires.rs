//! What carries the messages: standard streams, a WebSocket, or HTTP with an answer to every POST.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Result;
use futures_util::{SinkExt as _, StreamExt as _};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_tungstenite::tungstenite::Message;

use crate::Server;
use crate::tools::After;

/// One message a line, until `exit` or the end of its input.
pub(crate) async fn stdio(server: Arc<Server>) -> Result<()> {
    let (out, mut said) = mpsc::unbounded_channel::<String>();
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    let mut output = tokio::io::stdout();
    let mut hearing = JoinSet::new();
    loop {
        tokio::select! {
            Some(text) = said.recv() => {
                output.write_all(format!("{text}\n").as_bytes()).await?;
                output.flush().await?;
            }
            Some(after) = hearing.join_next() => if after? == After::Exit { return Ok(()) },
            line = lines.next_line() => match line? {
                Some(line) => {
                    server.note(&line);
                    let (server, out) = (server.clone(), out.clone());
                    hearing.spawn(async move { server.hear(&line, &out).await });
                }
                None => return Ok(()),
            },
        }
    }
}

#[expect(clippy::print_stdout, reason = "its starter reads the address there")]
async fn listen(address: SocketAddr, scheme: &str) -> Result<TcpListener> {
    let listener = TcpListener::bind(address).await?;
    println!("{scheme}://{}/mcp", listener.local_addr()?);
    Ok(listener)
}

/// One message a text frame, until `exit`.
pub(crate) async fn ws(address: SocketAddr, server: Arc<Server>) -> Result<()> {
    let listener = listen(address, "ws").await?;
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await?;
        while connections.try_join_next().is_some() {}
        connections.spawn(converse(stream, server.clone()));
    }
}

async fn converse(stream: TcpStream, server: Arc<Server>) {
    let Ok(mut socket) = tokio_tungstenite::accept_async(stream).await else { return };
    let (out, mut said) = mpsc::unbounded_channel::<String>();
    let mut hearing = JoinSet::new();
    loop {
        tokio::select! {
            Some(text) = said.recv() => if socket.send(Message::text(text)).await.is_err() { return },
            Some(after) = hearing.join_next() => if matches!(after, Ok(After::Exit)) {
                let _ = socket.close(None).await;
                return;
            },
            frame = socket.next() => match frame {
                Some(Ok(Message::Text(text))) => {
                    server.note(text.as_str());
                    let (server, out) = (server.clone(), out.clone());
                    hearing.spawn(async move { server.hear(text.as_str(), &out).await });
                }
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return,
            },
        }
    }
}

/// Everything that a POST makes it say is the answer to it, in an array where it is more than one message. There is no stream of its own.
pub(crate) async fn http(address: SocketAddr, server: Arc<Server>) -> Result<()> {
    let listener = listen(address, "http").await?;
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        while connections.try_join_next().is_some() {}
        let server = server.clone();
        let service = service_fn(move |request| answer(request, server.clone()));
        connections.spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    }
}

async fn answer(request: Request<Incoming>, server: Arc<Server>) -> Result<Response<Full<Bytes>>, Infallible> {
    let respond = |status: StatusCode, body: String| {
        let mut response = Response::new(Full::new(Bytes::from(body)));
        *response.status_mut() = status;
        response.headers_mut().insert("content-type", hyper::header::HeaderValue::from_static("application/json"));
        Ok(response)
    };
    if request.method() != Method::POST {
        return respond(StatusCode::METHOD_NOT_ALLOWED, String::new());
    }
    let body = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let text = String::from_utf8_lossy(&body).into_owned();
    let (out, mut said) = mpsc::unbounded_channel();
    server.note(&text);
    server.hear(&text, &out).await;
    drop(out);
    let mut all = Vec::new();
    while let Some(text) = said.recv().await {
        all.push(text);
    }
    match all.len() {
        0 => respond(StatusCode::ACCEPTED, String::new()),
        1 => respond(StatusCode::OK, all.remove(0)),
        _ => respond(StatusCode::OK, format!("[{}]", all.join(","))),
    }
}
