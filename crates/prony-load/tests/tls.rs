//! Loads over TLS on a real nginx: what the engine counts is what the server's log says, and how it was secured.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking; clippy sees only the test functions themselves")]

mod server;

use prony_load::run;
use prony_model::tls::TlsPlan;
use prony_model::{LoadPlan, LoadResult, Nanos, Protocol};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use server::Nginx;
use std::sync::atomic::AtomicBool;

/// Bytes of the large answer: many records, and more than a socket holds.
const LARGE_BYTES: usize = 3_000_000;

/// An authority, and what it signed for 127.0.0.1.
struct Trust {
    authority_pem: String,
    certificate_pem: String,
    key_pem: String,
}

impl Trust {
    /// By an authority of this name: one that is not trusted must not be called like one that is.
    fn by(authority: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, authority);
        let key = KeyPair::generate().unwrap();
        let authority_pem = params.self_signed(&key).unwrap().pem();
        let issuer = Issuer::new(params, key);
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["127.0.0.1".to_string()]).unwrap();
        let certificate_pem = params.signed_by(&key, &issuer).unwrap().pem();
        Self { authority_pem, certificate_pem, key_pem: key.serialize_pem() }
    }

    fn plan(&self) -> TlsPlan {
        TlsPlan { ca_pem: Some(self.authority_pem.clone()), ..TlsPlan::default() }
    }

    /// nginx with this certificate, these versions (before 1.23.4 it has no TLS 1.3 unless told) and more lines like
    /// them.
    fn serve(&self, versions: &str, extra: &str) -> Option<Nginx> {
        Nginx::with(|folder, port| {
            std::fs::write(folder.join("cert.pem"), &self.certificate_pem).unwrap();
            std::fs::write(folder.join("key.pem"), &self.key_pem).unwrap();
            std::fs::write(folder.join("ca.pem"), &self.authority_pem).unwrap();
            std::fs::write(folder.join("large"), vec![b'x'; LARGE_BYTES]).unwrap();
            let extra = extra.replace("FOLDER", &folder.display().to_string());
            let folder = folder.display();
            format!(
                "daemon off; user root; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/error.log;
events {{ worker_connections 512; }}
http {{
  log_format line '$status $server_protocol $connection_requests $ssl_protocol $ssl_cipher $ssl_session_reused';
  access_log {folder}/access.log line; keepalive_requests 1000000; client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  server {{
    listen 127.0.0.1:{port} ssl http2; root {folder};
    ssl_certificate {folder}/cert.pem; ssl_certificate_key {folder}/key.pem;
    ssl_protocols {versions}; {extra}
    location / {{ return 200 'hello'; }}
    location /large {{ }}
    location /post {{ client_max_body_size 10m; proxy_pass https://127.0.0.1:{port}/sink; }}
    location /sink {{ client_max_body_size 10m; access_log off; return 204; }}
  }}
}}"
            )
        })
    }
}

fn load(nginx: &Nginx, tls: TlsPlan, change: impl FnOnce(&mut LoadPlan)) -> LoadResult {
    let mut plan = LoadPlan {
        connections: 8,
        threads: 2,
        warmup: Nanos::from_millis(100),
        duration: Nanos::from_millis(500),
        timeout: Nanos::from_millis(20_000),
        tls,
        ..LoadPlan::to(&format!("https://127.0.0.1:{}/", nginx.port))
    };
    change(&mut plan);
    run(&plan, &AtomicBool::new(false), None).unwrap()
}

/// Column `n` of every line of the log, without repetitions.
fn seen(log: &[String], n: usize) -> Vec<String> {
    let mut all: Vec<String> = log.iter().map(|l| l.split(' ').nth(n).unwrap().to_string()).collect();
    all.sort();
    all.dedup();
    all
}

#[test]
fn keepalive_over_tls_1_3_counts_what_nginx_served() {
    let trust = Trust::by("the authority");
    let Some(nginx) = trust.serve("TLSv1.2 TLSv1.3", "") else { return };
    let result = load(&nginx, trust.plan(), |_| {});
    let log = nginx.log(result.responses_total);
    assert_eq!((log.len() as u64, result.errors.total()), (result.responses_total, 0), "{:?}", result.errors);
    assert!(result.completed > 8, "{result:?}");
    assert_eq!(seen(&log, 3), ["TLSv1.3"]);
    assert_eq!(seen(&log, 4), ["TLS_AES_128_GCM_SHA256"]);
}

#[test]
fn http2_is_agreed_on() {
    let trust = Trust::by("the authority");
    let Some(nginx) = trust.serve("TLSv1.2 TLSv1.3", "") else { return };
    let result = load(&nginx, trust.plan(), |plan| {
        plan.protocol = Protocol::Http2;
        plan.depth = 4;
    });
    let log = nginx.log(result.responses_total);
    assert_eq!((log.len() as u64, result.errors.total()), (result.responses_total, 0), "{:?}", result.errors);
    assert_eq!((seen(&log, 1), seen(&log, 0)), (vec!["HTTP/2.0".to_string()], vec!["200".to_string()]));
}

#[test]
fn a_server_of_tls_1_2_is_spoken_to() {
    let trust = Trust::by("the authority");
    let Some(nginx) = trust.serve("TLSv1.2", "") else { return };
    let result = load(&nginx, trust.plan(), |_| {});
    let log = nginx.log(result.responses_total);
    assert_eq!((log.len() as u64, result.errors.total()), (result.responses_total, 0), "{:?}", result.errors);
    assert_eq!(seen(&log, 3), ["TLSv1.2"]);
    assert_eq!(seen(&log, 4), ["ECDHE-ECDSA-AES128-GCM-SHA256"]);
}

#[test]
fn a_handshake_per_request_is_full_unless_resumption_is_asked_for() {
    for versions in ["TLSv1.3", "TLSv1.2"] {
        let trust = Trust::by("the authority");
        let Some(nginx) = trust.serve(versions, "ssl_session_cache shared:t:1m;") else {
            return;
        };
        let full = load(&nginx, trust.plan(), |plan| plan.keepalive = false);
        let log = nginx.log(full.responses_total);
        assert_eq!((log.len() as u64, full.errors.total()), (full.responses_total, 0), "{:?}", full.errors);
        assert_eq!(seen(&log, 5), ["."], "{versions}: every handshake is a full one");
        let resumed = load(&nginx, TlsPlan { resume: true, ..trust.plan() }, |plan| plan.keepalive = false);
        assert_eq!(resumed.errors.total(), 0, "{:?}", resumed.errors);
        let log = nginx.log(full.responses_total + resumed.responses_total).split_off(log.len());
        let share = log.iter().filter(|l| l.ends_with(" r")).count() as f64 / log.len() as f64;
        assert!(share > 0.5, "{versions}: {share} of {} handshakes were resumed", log.len());
    }
}

#[test]
fn large_answers_and_bodies_arrive_whole() {
    let trust = Trust::by("the authority");
    let Some(nginx) = trust.serve("TLSv1.2 TLSv1.3", "") else { return };
    let url = format!("https://127.0.0.1:{}", nginx.port);
    let down = load(&nginx, trust.plan(), |plan| plan.url = format!("{url}/large"));
    assert_eq!(down.errors.total(), 0, "{:?}", down.errors);
    // Of the first answer of each connection, a part may have come before the counted time.
    let whole = down.completed.saturating_sub(8) * LARGE_BYTES as u64;
    assert!(down.completed > 8 && down.bytes_in >= whole, "{} bytes in {} answers", down.bytes_in, down.completed);
    let up = load(&nginx, trust.plan(), |plan| {
        plan.url = format!("{url}/post");
        plan.method = "POST".into();
        plan.body = vec![b'x'; LARGE_BYTES];
    });
    assert_eq!(up.errors.total(), 0, "{:?}", up.errors);
    assert_eq!(up.statuses, [(204, up.completed)].into());
}

#[test]
fn a_client_certificate_opens_the_door() {
    let trust = Trust::by("the authority");
    let Some(nginx) = trust.serve("TLSv1.2 TLSv1.3", "ssl_verify_client on; ssl_client_certificate FOLDER/ca.pem;")
    else {
        return;
    };
    let mine = TlsPlan {
        certificate_pem: Some(trust.certificate_pem.clone()),
        key_pem: Some(trust.key_pem.clone()),
        ..trust.plan()
    };
    let shown = load(&nginx, mine, |_| {});
    assert_eq!(shown.statuses, [(200, shown.completed)].into(), "{:?}", shown.errors);
    let hidden = load(&nginx, trust.plan(), |_| {});
    assert_eq!(hidden.statuses, [(400, hidden.completed)].into(), "nginx answers those who show none");
}

#[test]
fn a_stranger_is_refused_and_insecure_accepts() {
    let trust = Trust::by("the authority");
    let Some(nginx) = trust.serve("TLSv1.2 TLSv1.3", "") else { return };
    let plan = LoadPlan {
        duration: Nanos::from_millis(200),
        tls: Trust::by("a stranger").plan(),
        ..LoadPlan::to(&format!("https://127.0.0.1:{}/", nginx.port))
    };
    let error = run(&plan, &AtomicBool::new(false), None).unwrap_err().to_string();
    assert!(error.contains("127.0.0.1") && error.contains("not trusted here"), "{error}");
    let result = load(&nginx, TlsPlan { insecure: true, ..TlsPlan::default() }, |_| {});
    assert!(result.completed > 0 && result.errors.total() == 0, "{result:?}");
}
