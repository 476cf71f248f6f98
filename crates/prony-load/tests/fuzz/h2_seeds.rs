//! What servers of HTTP/2 say, right and wrong: the seeds of the target `h2_frames`.

use crate::frames::*;

/// Names and inputs. The first digits of an input are explained in `fuzz/src/course.rs`.
pub fn seeds() -> Vec<Seed> {
    [answers(), control()].concat()
}

type Seed = (&'static str, Vec<u8>);

fn seed(name: &'static str, course: &str, parts: &[Vec<u8>]) -> Seed {
    let frames: Vec<u8> = [&[settings(&[])], parts].concat().concat();
    (name, [course.as_bytes(), b"\n", &frames].concat())
}

/// Heads and bodies.
fn answers() -> Vec<Seed> {
    let ack = frame(SETTINGS, END, 0, &[]);
    let head_and = |fields: &[Vec<u8>]| [&[STATUS_200][..], &fields.concat()].concat();
    let long_head = head_and(&[field("content-type", "text/plain"), field("x-id", &"a".repeat(100))]);
    let trailers = frame(HEADERS, END | END_HEADERS, 1, &field("grpc-status", "0"));
    // A literal that enters the dynamic table (RFC 7541, 6.2.1), then the same by its index.
    let indexed = [&[STATUS_200, 0x40, 1, b'k', 1, b'v'][..], &[0xbe]].concat();
    // Huffman: `:status` by its index with the value "302" (RFC 7541, C.6.1).
    let huffman = [0x48, 0x82, 0x64, 0x02];
    vec![
        seed("two_answers", "42200", &[ack.clone(), answer(1, b"hello"), answer(3, b"")]),
        seed("again_and_again", "32300", &[answer(1, b"a"), answer(3, b"b"), answer(5, b"c"), answer(7, b"d")]),
        seed("mixed_streams", "33100", &[head(3, 0), head(1, 0), frame(DATA, 0, 3, b"x"), frame(DATA, END, 1, b"y")]),
        seed(
            "continued_head",
            "41100",
            &[
                frame(HEADERS, END, 1, &long_head[..5]),
                frame(CONTINUATION, 0, 1, &long_head[5..30]),
                frame(CONTINUATION, END_HEADERS, 1, &long_head[30..]),
            ],
        ),
        seed("trailers", "31100", &[head(1, 0), frame(DATA, 0, 1, b"abc"), trailers]),
        seed("interim", "31100", &[frame(HEADERS, END_HEADERS, 1, &field(":status", "103")), answer(1, b"ok")]),
        seed("head_request", "33110", &[head(1, END), answer(3, b"x"), head(5, END)]),
        seed(
            "dynamic_table",
            "32100",
            &[
                frame(HEADERS, END | END_HEADERS, 1, &indexed),
                frame(HEADERS, END | END_HEADERS, 3, &[STATUS_200, 0xbe]),
            ],
        ),
        seed("huffman", "31100", &[frame(HEADERS, END | END_HEADERS, 1, &huffman)]),
        seed("table_size", "31000", &[frame(HEADERS, END | END_HEADERS, 1, &[0x20, STATUS_200])]),
        seed("table_too_large", "31000", &[frame(HEADERS, END | END_HEADERS, 1, &[0x3f, 0xff, 0xff, 0xff, 0x7f])]),
        seed("padded", "31100", &[head(1, 0), frame(DATA, END | 0x8, 1, &[3, b'a', 0, 0, 0])]),
        seed("padded_too_much", "31000", &[head(1, 0), frame(DATA, END | 0x8, 1, &[9, b'a', 0, 0])]),
    ]
}

/// Windows, settings, floods, ends, and what is forbidden.
fn control() -> Vec<Seed> {
    vec![
        seed(
            "small_windows",
            "32000",
            &[settings(&[(4, 1)]), window(1, 5), window(0, 1), window(3, 10_000), answer(3, b"")],
        ),
        seed("no_window", "32000", &[settings(&[(4, 0)]), settings(&[(4, 5)]), settings(&[(4, 0x7fff_ffff)])]),
        seed("window_overflow", "31000", &[window(0, 0x7fff_ffff)]),
        seed("window_of_nothing", "31000", &[window(1, 0), window(0, 0)]),
        seed("few_streams", "34200", &[settings(&[(3, 1)]), answer(1, b""), answer(3, b"")]),
        seed("smaller_frames_only", "31000", &[settings(&[(5, 1)])]),
        seed("larger_frames", "31000", &[settings(&[(5, 1 << 20), (1, 0), (6, 10)]), answer(1, b"")]),
        seed("settings_flood", "0100?", &[settings(&[]), settings(&[(3, 100)]), settings(&[])]),
        seed("ping_flood", "0100?", &[frame(PING, 0, 0, b"12345678").repeat(20)]),
        seed(
            "continuation_flood",
            "0110?",
            &[
                frame(HEADERS, END, 1, &[STATUS_200]),
                frame(CONTINUATION, 0, 1, &field("a", &"b".repeat(100))).repeat(10),
            ],
        ),
        seed("empty_frames", "0100?", &[head(1, 0), frame(DATA, 0, 1, b"").repeat(50)]),
        seed("reset_flood", "3820?", &[reset(1, 7), reset(3, 7), reset(5, 7), reset(7, 7)]),
        seed("reset_then_data", "32000", &[head(1, 0), reset(1, 8), frame(DATA, END, 1, b"late"), answer(3, b"")]),
        seed("given_up", "34700", &[head(1, 0), answer(3, b"x"), frame(DATA, END, 1, b"y"), answer(5, b"z")]),
        seed("goaway", "34000", &[answer(1, b""), goaway(1, 0), answer(3, b"")]),
        seed("goaway_drains", "34000", &[goaway(5, 0), answer(1, b""), answer(3, b""), answer(5, b"")]),
        seed("goaway_twice", "34800", &[goaway(0x7fff_ffff, 0), goaway(1, 2), answer(1, b"")]),
        seed("push", "31000", &[frame(PUSH_PROMISE, END_HEADERS, 1, &[0, 0, 0, 2, 0x82])]),
        seed("even_stream", "31000", &[answer(2, b"")]),
        seed("idle_stream", "31000", &[answer(99, b"")]),
        seed("data_on_the_connection", "31000", &[frame(DATA, 0, 0, b"x")]),
        seed("largest_frame", "31000", &[frame_of_length(0xff_ffff, DATA, 0, 1, b"x")]),
        seed("unknown_frame", "31000", &[frame(0xfe, 0xff, 77, b"what"), answer(1, b"")]),
        seed("ack_with_payload", "31000", &[frame(SETTINGS, END, 0, &[0; 6])]),
        seed("half_a_setting", "31000", &[frame(SETTINGS, 0, 0, &[0; 5])]),
        seed("no_status", "31100", &[frame(HEADERS, END | END_HEADERS, 1, &field("a", "b"))]),
        ("http1", b"31000\nHTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n".to_vec()),
    ]
}
