//! The records of a connection whose handshake is done: opened where they lie, sealed one after another.
//!
//! Ciphers, nonces and additional data are rustls'; this counts records, takes off their headers and handles what a
//! server says besides data: tickets, key updates, alerts. It does no IO. Invariant: a key and a record number are used
//! once.

use super::alerted;
use rustls::client::ClientConnectionData;
use rustls::crypto::cipher::{
    AeadKey, InboundOpaqueMessage, Iv, MessageDecrypter, MessageEncrypter, OutboundChunks, OutboundPlainMessage,
};
use rustls::kernel::KernelConnection;
use rustls::{
    AlertDescription, ConnectionTrafficSecrets, ContentType, ExtractedSecrets, HandshakeType, ProtocolVersion,
    SupportedCipherSuite,
};
use std::ops::Range;

/// Type, version, length (RFC 8446, section 5.1).
const HEADER_BYTES: usize = 5;
/// Longest protected payload: 2^14 and what protection may add (RFC 5246, section 6.2.3; TLS 1.3 allows less).
const PAYLOAD_BYTES_MAX: usize = (1 << 14) + 2048;
/// Longest record of data that we send (RFC 8446, section 5.1).
const FRAGMENT_BYTES_MAX: usize = 1 << 14;
/// Longest message after the handshake. A ticket is at most 2^16 bytes and a little (RFC 8446, section 4.6.1).
const MESSAGE_BYTES_MAX: usize = (1 << 16) + 1024;
/// Records without data, one after another, that a server may send. A guess: servers send two tickets, few send ten;
/// more is a flood that would keep a thread from its other connections.
const QUIET_RECORDS_MAX: u32 = 64;
/// Records sealed with one key of TLS 1.3 before it is changed: 2^24.5 are safe with AES-GCM (RFC 8446, section 5.5).
/// TLS 1.2 has no such change; like OpenSSL we go on, for records of requests are small and the limit is one of full
/// records.
const RECORDS_PER_KEY: u64 = 1 << 24;

/// What came out of a record.
#[derive(Debug, PartialEq, Eq)]
pub enum Content {
    /// Data: where it lies in the record.
    Data(Range<usize>),
    /// Nothing for the reader.
    Nothing,
    /// The server will send nothing more (close_notify).
    Closed,
}

/// One connection after its handshake.
pub struct Records {
    opener: Box<dyn MessageDecrypter>,
    opened: u64,
    sealer: Box<dyn MessageEncrypter>,
    sealed: u64,
    /// What rustls still knows of the connection: secrets for new keys, and where tickets go.
    kernel: KernelConnection<ClientConnectionData>,
    keeps_tickets: bool,
    /// The server asked for new keys of ours (RFC 8446, section 4.6.3): before the next record.
    owes_key_update: bool,
    /// A message after the handshake that is not whole yet.
    message: Vec<u8>,
    quiet: u32,
}

impl Records {
    /// Goes on where the handshake ended.
    ///
    /// # Errors
    /// A cipher that we did not offer, as text.
    pub fn new(
        secrets: ExtractedSecrets,
        kernel: KernelConnection<ClientConnectionData>,
        keeps_tickets: bool,
    ) -> Result<Self, String> {
        let suite = kernel.negotiated_cipher_suite();
        let (opened, sealed) = (secrets.rx.0, secrets.tx.0);
        Ok(Self {
            opener: opener(suite, secrets.rx.1)?,
            opened,
            sealer: sealer(suite, secrets.tx.1)?,
            sealed,
            kernel,
            keeps_tickets,
            owes_key_update: false,
            message: Vec::new(),
            quiet: 0,
        })
    }

    /// Opens one whole record where it lies.
    ///
    /// # Errors
    /// An alert, or what is not TLS; the connection is of no use afterwards.
    #[inline]
    pub fn open(&mut self, record: &mut [u8]) -> Result<Content, String> {
        let base = record.as_ptr() as usize;
        let kind = ContentType::from(record[0]);
        if kind != ContentType::ApplicationData && self.is_tls13() {
            return self.open_unprotected(kind, &record[HEADER_BYTES..]);
        }
        let payload = &mut record[HEADER_BYTES..];
        let message = InboundOpaqueMessage::new(kind, ProtocolVersion::TLSv1_2, payload);
        let plain =
            self.opener.decrypt(message, self.opened).map_err(|e| format!("a record cannot be opened ({e})"))?;
        self.opened += 1;
        if plain.typ == ContentType::ApplicationData && !plain.payload.is_empty() {
            self.quiet = 0;
            let from = plain.payload.as_ptr() as usize - base;
            return Ok(Content::Data(from..from + plain.payload.len()));
        }
        self.open_other(plain.typ, plain.payload)
    }

    /// Records without data.
    fn open_other(&mut self, kind: ContentType, payload: &[u8]) -> Result<Content, String> {
        self.quiet += 1;
        if self.quiet > QUIET_RECORDS_MAX {
            return Err(format!("more than {QUIET_RECORDS_MAX} records without data"));
        }
        if kind == ContentType::Alert {
            self.hear_alert(payload)
        } else if kind == ContentType::Handshake {
            self.hear_message(payload)
        } else if kind == ContentType::ApplicationData {
            Ok(Content::Nothing)
        } else {
            Err(format!("an unexpected record ({kind:?})"))
        }
    }

    /// A server that fails before it has keys sends its alert as it is; anything else must be protected.
    fn open_unprotected(&self, kind: ContentType, payload: &[u8]) -> Result<Content, String> {
        match (kind == ContentType::Alert, payload) {
            (true, [_, description]) => Err(alerted(AlertDescription::from(*description))),
            (true | false, _) => Err(format!("an unprotected record ({kind:?}) after the handshake")),
        }
    }

    fn hear_alert(&self, payload: &[u8]) -> Result<Content, String> {
        /// RFC 5246, section 7.2. TLS 1.3 has no warnings but for these two descriptions (RFC 8446, section 6.1).
        const WARNING: u8 = 1;
        let [level, description] = payload else { return Err("an alert of a wrong length".to_string()) };
        let alert = AlertDescription::from(*description);
        if alert == AlertDescription::CloseNotify {
            Ok(Content::Closed)
        } else if alert == AlertDescription::UserCanceled || (*level == WARNING && !self.is_tls13()) {
            Ok(Content::Nothing)
        } else {
            Err(alerted(alert))
        }
    }

    /// Messages after the handshake may lie in one record together, or be spread over several.
    fn hear_message(&mut self, payload: &[u8]) -> Result<Content, String> {
        self.message.extend_from_slice(payload);
        while let [kind, a, b, c, rest @ ..] = self.message.as_slice() {
            let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
            if length > MESSAGE_BYTES_MAX {
                return Err(format!("a message of {length} bytes after the handshake"));
            }
            let Some(body) = rest.get(..length) else { return Ok(Content::Nothing) };
            let kind = HandshakeType::from(*kind);
            if kind == HandshakeType::NewSessionTicket && self.is_tls13() {
                if self.keeps_tickets {
                    self.kernel.handle_new_session_ticket(body).map_err(|e| e.to_string())?;
                }
            } else if kind == HandshakeType::KeyUpdate && self.is_tls13() {
                // Whether it asks for ours too.
                let [asks @ (0 | 1)] = *body else { return Err("a key update that is not one".to_string()) };
                if rest.len() > length {
                    return Err("a message that spans a change of keys".to_string());
                }
                self.owes_key_update |= asks == 1;
                let (opened, secrets) = self.kernel.update_rx_secret().map_err(|e| e.to_string())?;
                self.opener = opener(self.kernel.negotiated_cipher_suite(), secrets)?;
                self.opened = opened;
            } else if kind == HandshakeType::HelloRequest && !self.is_tls13() {
                // A server of TLS 1.2 that wants another handshake may be ignored (RFC 5246, section 7.4.1.1).
            } else {
                return Err(format!("an unexpected message ({kind:?}) after the handshake"));
            }
            self.message.drain(..4 + length);
        }
        if self.message.is_empty() {
            self.message = Vec::new();
        }
        Ok(Content::Nothing)
    }

    /// Seals `bytes` into as few records as they fit in, behind what is in `into`.
    ///
    /// # Errors
    /// Only when the cipher refuses, as text.
    #[inline]
    pub fn seal(&mut self, bytes: &[u8], into: &mut Vec<u8>) -> Result<(), String> {
        for fragment in bytes.chunks(FRAGMENT_BYTES_MAX) {
            if (self.owes_key_update || self.sealed >= RECORDS_PER_KEY) && self.is_tls13() {
                self.change_key(into)?;
            }
            self.seal_one(ContentType::ApplicationData, fragment, into)?;
        }
        Ok(())
    }

    /// Tells the server that nothing more will come.
    ///
    /// # Errors
    /// As [`Records::seal`].
    pub fn seal_close(&mut self, into: &mut Vec<u8>) -> Result<(), String> {
        self.seal_one(ContentType::Alert, &[1, AlertDescription::CloseNotify.into()], into)
    }

    fn change_key(&mut self, into: &mut Vec<u8>) -> Result<(), String> {
        // A key update that asks for none in return.
        self.seal_one(ContentType::Handshake, &[HandshakeType::KeyUpdate.into(), 0, 0, 1, 0], into)?;
        let (sealed, secrets) = self.kernel.update_tx_secret().map_err(|e| e.to_string())?;
        self.sealer = sealer(self.kernel.negotiated_cipher_suite(), secrets)?;
        self.sealed = sealed;
        self.owes_key_update = false;
        Ok(())
    }

    #[inline]
    fn seal_one(&mut self, kind: ContentType, payload: &[u8], into: &mut Vec<u8>) -> Result<(), String> {
        let payload = OutboundChunks::Single(payload);
        let message = OutboundPlainMessage { typ: kind, version: ProtocolVersion::TLSv1_2, payload };
        let record = self.sealer.encrypt(message, self.sealed).map_err(|e| e.to_string())?.encode();
        self.sealed += 1;
        // Most sends are one record, which is then sent from where rustls made it.
        if into.is_empty() {
            *into = record;
        } else {
            into.extend_from_slice(&record);
        }
        Ok(())
    }

    fn is_tls13(&self) -> bool {
        self.kernel.protocol_version() == ProtocolVersion::TLSv1_3
    }
}

/// Length of the record at the front of `bytes`, with its header; none: it is not whole yet.
///
/// # Errors
/// When it is not the header of a record.
#[inline]
pub fn whole(bytes: &[u8]) -> Result<Option<usize>, String> {
    let [kind, major, _, high, low, ..] = *bytes else { return Ok(None) };
    let length = usize::from(u16::from_be_bytes([high, low]));
    // Types from RFC 8446, section 5.1.
    if !(20..=23).contains(&kind) || major != 3 || length > PAYLOAD_BYTES_MAX {
        return Err("what the server sent is not a TLS record".to_string());
    }
    Ok((bytes.len() >= HEADER_BYTES + length).then_some(HEADER_BYTES + length))
}

fn opener(suite: SupportedCipherSuite, secrets: ConnectionTrafficSecrets) -> Result<Box<dyn MessageDecrypter>, String> {
    let (key, iv) = key_and_iv(secrets)?;
    Ok(match suite {
        SupportedCipherSuite::Tls13(suite) => suite.aead_alg.decrypter(key, iv),
        SupportedCipherSuite::Tls12(suite) => {
            let fixed = suite.aead_alg.key_block_shape().fixed_iv_len;
            suite.aead_alg.decrypter(key, &iv.as_ref()[..fixed])
        }
    })
}

fn sealer(suite: SupportedCipherSuite, secrets: ConnectionTrafficSecrets) -> Result<Box<dyn MessageEncrypter>, String> {
    let (key, iv) = key_and_iv(secrets)?;
    Ok(match suite {
        SupportedCipherSuite::Tls13(suite) => suite.aead_alg.encrypter(key, iv),
        SupportedCipherSuite::Tls12(suite) => {
            let (fixed, explicit) = iv.as_ref().split_at(suite.aead_alg.key_block_shape().fixed_iv_len);
            suite.aead_alg.encrypter(key, fixed, explicit)
        }
    })
}

fn key_and_iv(secrets: ConnectionTrafficSecrets) -> Result<(AeadKey, Iv), String> {
    use ConnectionTrafficSecrets::{Aes128Gcm, Aes256Gcm, Chacha20Poly1305};
    let (Aes128Gcm { key, iv } | Aes256Gcm { key, iv } | Chacha20Poly1305 { key, iv }) = secrets else {
        return Err("the server chose a cipher that was not offered".to_string());
    };
    Ok((key, iv))
}
