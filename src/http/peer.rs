//! Whether the caller is still there. actix-web does not tell, so a duplicate of the socket is kept with the connection
//! and looked at just before a reply is handed over (ARC-32).

use std::any::Any;
use std::io::ErrorKind;
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::sync::Arc;

use actix_web::dev::Extensions;
use actix_web::{HttpRequest, rt};

/// The connection of a caller.
#[derive(Clone)]
pub(super) struct Peer(Arc<TcpStream>);

impl Peer {
    /// Keeps a duplicate of a new connection's socket. Without one (no file descriptor left) the caller counts as there.
    pub(super) fn remember(connection: &dyn Any, extensions: &mut Extensions) {
        let socket = connection.downcast_ref::<rt::net::TcpStream>();
        let duplicate = socket.and_then(|socket| socket.as_fd().try_clone_to_owned().ok());
        if let Some(duplicate) = duplicate {
            extensions.insert(Self(Arc::new(duplicate.into())));
        }
    }

    /// The caller of this request.
    pub(super) fn of(request: &HttpRequest) -> Option<Self> {
        request.conn_data::<Self>().cloned()
    }

    /// True when the caller is known to have closed the connection, or at least its sending side. The socket does not
    /// block: "would block" is what a caller who waits looks like.
    pub(super) fn is_gone(&self) -> bool {
        match self.0.peek(&mut [0]) {
            Ok(length) => length == 0,
            Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        }
    }
}
