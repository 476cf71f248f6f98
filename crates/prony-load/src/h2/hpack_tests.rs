//! Tests of header blocks: the examples of RFC 7541, the Huffman code, what is refused, and that nothing panics or
//! grows.

use super::super::huffman::{LENGTHS, decode};
use super::super::table::TABLE_BYTES_MAX;
use super::*;
use expect_test::{Expect, expect};
use proptest::prelude::*;

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(16)).collect();
    digits.chunks(2).map(|pair| (pair[0] * 16 + pair[1]) as u8).collect()
}

/// Reads the blocks one after another, and tells every field and the table's size.
fn read_all(table_bytes: usize, blocks: &[&str]) -> String {
    let mut decoder = Decoder::new();
    assert!(decoder.table_mut().resize(table_bytes));
    let mut seen = String::new();
    for block in blocks {
        let mut lines = Vec::new();
        let result = decoder.read(&hex(block), &mut Fields::of(Part::Ignored, Some(&mut lines)));
        seen += &String::from_utf8_lossy(&lines).replace('\r', "");
        seen += &match result {
            Ok(()) => format!("table: {}\n", decoder.table().bytes()),
            Err(Malformed(why)) => format!("{why}\n"),
        };
    }
    seen
}

/// Without the sizes of the table, which are not known where texts are coded.
fn fields_of(text: &str) -> Vec<&str> {
    text.lines().filter(|line| !line.starts_with("table: ")).collect()
}

const REQUESTS: &str = "\
:method: GET
:scheme: http
:path: /
:authority: www.example.com
table: 57
:method: GET
:scheme: http
:path: /
:authority: www.example.com
cache-control: no-cache
table: 110
:method: GET
:scheme: https
:path: /index.html
:authority: www.example.com
custom-key: custom-value
table: 164
";

const RESPONSES: &str = "\
:status: 302
cache-control: private
date: Mon, 21 Oct 2013 20:13:21 GMT
location: https://www.example.com
table: 222
:status: 307
cache-control: private
date: Mon, 21 Oct 2013 20:13:21 GMT
location: https://www.example.com
table: 222
:status: 200
cache-control: private
date: Mon, 21 Oct 2013 20:13:22 GMT
location: https://www.example.com
content-encoding: gzip
set-cookie: foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1
table: 215
";

#[test]
fn appendix_c_2_single_fields() {
    let blocks = [
        "400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572",
        "040c 2f73 616d 706c 652f 7061 7468",
        "1008 7061 7373 776f 7264 0673 6563 7265 74",
        "82",
    ];
    expect![[r#"
        custom-key: custom-header
        table: 55
        :path: /sample/path
        table: 55
        password: secret
        table: 55
        :method: GET
        table: 55
    "#]]
    .assert_eq(&read_all(4096, &blocks));
}

#[test]
fn appendix_c_3_and_4_requests() {
    let plain = [
        "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
        "8286 84be 5808 6e6f 2d63 6163 6865",
        "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
    ];
    assert_eq!(read_all(4096, &plain), REQUESTS);
    let coded = [
        "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
        "8286 84be 5886 a8eb 1064 9cbf",
        "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
    ];
    assert_eq!(fields_of(&read_all(4096, &coded)), fields_of(REQUESTS));
}

#[test]
fn appendix_c_5_and_6_responses_with_eviction() {
    let plain = [
        "4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3120 \
         474d 546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
        "4803 3330 37c1 c0bf",
        "88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d 54c0 5a04 677a 6970 7738 \
         666f 6f3d4153 444a 4b48 514b 425a 584f 5157 454f 5049 5541 5851 5745 4f49 553b 206d 6178 2d61 6765 3d33 \
         3630 303b 2076 65727369 6f6e 3d31",
    ];
    assert_eq!(read_all(256, &plain), RESPONSES);
    let coded = [
        "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d 29ad 1718 \
         63c7 8f0b97c8 e9ae 82ae 43d3",
        "4883 640e ffc1 c0bf",
        "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d d7f2 e6c7 \
         b335 dfdfcd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 3d50 07",
    ];
    assert_eq!(fields_of(&read_all(256, &coded)), fields_of(RESPONSES));
}

#[test]
fn appendix_c_1_integers() {
    let read = |bytes: &[u8], mask| {
        let mut input = Input(bytes);
        (input.integer(mask), input.0.len())
    };
    assert_eq!(read(&[0b1110_1010, 7], 0x1f), (Ok(10), 1));
    assert_eq!(read(&[0b0001_1111, 0b1001_1010, 0b0000_1010], 0x1f), (Ok(1337), 0));
    assert_eq!(read(&[42], 0xff), (Ok(42), 0));
    assert_eq!(read(&[0x7f, 0xff, 0xff, 0xff, 0x7f], 0x7f), (Ok(127 + (1 << 28) - 1), 0));
    assert_eq!(
        read(&[0x7f, 0x80, 0x80, 0x80, 0x80, 0], 0x7f).0,
        Err(Malformed("a number in a header block is too long"))
    );
    assert_eq!(read(&[0x7f, 0x80], 0x7f).0, Err(CUT));
    assert_eq!(read(&[], 0x7f).0, Err(CUT));
}

#[test]
fn wrong_blocks_are_refused() {
    let cases = [
        "80",                    // index 0
        "be",                    // a dynamic entry that is not there
        "7e 01 61",              // the same as a name
        "3fe1 1f 82",            // a table of 4096: allowed
        "3fe2 1f",               // of 4097: not
        "82 20",                 // a size in the middle
        "00 85 ffff ffff ff 00", // a name made of the end symbol and filling
        "04 05 6162",            // a value longer than the block
        "40 01",
    ];
    for case in cases {
        let mut lines = Vec::new();
        let result = Decoder::new().read(&hex(case), &mut Fields::of(Part::Ignored, Some(&mut lines)));
        assert_eq!(result.is_ok(), case.contains("3fe1"), "{case}: {result:?}");
    }
}

/// Reads one block as the head of an answer, captured and not; both must agree as far as both look.
fn head(block: &str) -> String {
    let mut lines = Vec::new();
    let mut kept = Fields::of(Part::Head, Some(&mut lines));
    let with = Decoder::new().read(&hex(block), &mut kept);
    let seen = (kept.status, kept.length);
    let mut fields = Fields::of(Part::Head, None);
    let without = Decoder::new().read(&hex(block), &mut fields);
    if with.is_ok() {
        assert_eq!((without, seen), (Ok(()), (fields.status, fields.length)));
    }
    match with {
        Ok(()) => format!("{seen:?} {}", String::from_utf8_lossy(&lines).replace("\r\n", ", ")),
        Err(Malformed(why)) => why.to_string(),
    }
}

#[test]
fn heads_are_read_for_status_and_length() {
    let check = |block: &str, want: Expect| want.assert_eq(&head(block));
    check("88", expect!["(200, None) "]);
    check("4803 323031 5c02 3132", expect!["(201, Some(12)) content-length: 12, "]);
    check("0882 1003 0f0d 02 3132", expect!["(201, Some(12)) content-length: 12, "]);
    check("00 07 3a737461747573 03 343034 00 01 61 01 62", expect!["(404, None) a: b, "]);
    check("00 01 61 01 62 88", expect!["the head does not begin with :status"]);
    check("88 89", expect!["two :status in one head"]);
    check("88 82", expect!["the head holds a field of requests"]);
    check("08 03 323078", expect![":status is not a number of three digits"]);
    check("08 03 303939", expect![":status is not a number of three digits"]);
    check("88 5c 00", expect!["content-length is not a number"]);
    check("88 5c 02 2b31", expect!["content-length is not a number"]);
    check("88 5c 01 31 5c 01 31", expect!["(200, Some(1)) content-length: 1, content-length: 1, "]);
    check("88 5c 01 31 5c 01 32", expect!["two different content-length"]);
    check("88 5c 14 3939393939393939393939393939393939393939", expect!["content-length is not a number"]);
    check("88 00 01 41 01 62", expect!["a header name holds what no name may hold"]);
    check("88 00 03 613a62 01 62", expect!["a header name holds what no name may hold"]);
    check("88 00 01 61 03 620a63", expect!["a header value holds a line end"]);
}

#[test]
fn trailers_hold_no_pseudo_fields() {
    let read = |block: &str| Decoder::new().read(&hex(block), &mut Fields::of(Part::Trailers, None));
    assert_eq!(read("00 01 61 01 62 5c 01 78"), Ok(()));
    assert_eq!(read("88"), Err(Malformed("a trailer's name begins with a colon")));
}

#[test]
fn fields_and_lines_are_bounded() {
    let many = ["88".to_string(), "be".repeat(256)].concat();
    let mut decoder = Decoder::new();
    // One entry of nearly the table's size, then named 256 times: a block of 300 bytes that would be 1 MiB of lines.
    let big = [hex("88 40 01 61 7f"), hex("c01e"), vec![b'v'; 127 + 0x40 + (0x1e << 7)]].concat();
    assert_eq!(decoder.read(&big, &mut Fields::of(Part::Head, None)), Ok(()));
    assert_eq!(decoder.table().bytes(), 127 + 0x40 + (0x1e << 7) + 33);
    let mut lines = Vec::new();
    let bomb = decoder.read(&hex(&many), &mut Fields::of(Part::Head, Some(&mut lines)));
    assert_eq!(bomb, Err(Malformed("the head is longer than 64 KiB")));
    assert!(lines.len() <= BLOCK_BYTES_MAX && !lines.is_empty());
    let counted = decoder.read(&hex(&many), &mut Fields::of(Part::Head, None));
    assert_eq!(counted, Err(Malformed("the head has more than 256 fields")));
}

fn plain(bytes: &[u8]) -> Text<'_> {
    Text { bytes, is_coded: false }
}

/// Name and value of an index; none: there is no such index.
fn field(table: &Table, index: usize) -> Option<(Vec<u8>, Vec<u8>)> {
    let (mut name, mut value) = (Vec::new(), Vec::new());
    table.kind(index)?;
    table.push_name(index, &mut name).unwrap();
    table.push_value(index, &mut value).unwrap();
    Some((name, value))
}

#[test]
fn an_entry_may_take_the_name_of_one_that_it_displaces() {
    let mut table = Table::new();
    table.add(Kind::Ordinary, Name::Text(plain(b"name")), plain(b"old"));
    let long = vec![b'x'; TABLE_BYTES_MAX - 32 - 4];
    table.add(Kind::Ordinary, Name::Of(62), plain(&long));
    assert_eq!((table.bytes(), field(&table, 62), field(&table, 63)), (4096, Some((b"name".to_vec(), long)), None));
    table.add(Kind::Ordinary, Name::Of(19), plain(b"*"));
    assert_eq!((table.bytes(), field(&table, 62)), (39, Some((b"accept".to_vec(), b"*".to_vec()))));
    table.add(Kind::Ordinary, Name::Of(62), plain(b"a"));
    assert_eq!((table.bytes(), field(&table, 62)), (78, Some((b"accept".to_vec(), b"a".to_vec()))));
}

#[test]
fn an_entry_larger_than_the_table_empties_it() {
    let mut table = Table::new();
    table.add(Kind::Ordinary, Name::Text(plain(b"a")), plain(b"b"));
    assert_eq!((table.bytes(), field(&table, 62)), (34, Some((b"a".to_vec(), b"b".to_vec()))));
    table.add(Kind::Ordinary, Name::Of(62), plain(&[b'x'; TABLE_BYTES_MAX]));
    assert_eq!((table.bytes(), field(&table, 62)), (0, None));
}

#[test]
fn coded_names_that_matter_are_known() {
    for (name, kind) in [
        ("content-length", Kind::Length),
        (":status", Kind::Status),
        (":path", Kind::Pseudo),
        ("x-y", Kind::Ordinary),
        ("content-lengtH", Kind::Ordinary),
        ("accept-ranges1", Kind::Ordinary),
    ] {
        let bytes = encode(name.as_bytes());
        assert_eq!(Decoder::new().kind_of(Text { bytes: &bytes, is_coded: true }), Ok(kind), "{name}");
    }
}

/// The other direction, which only tests need.
fn encode(text: &[u8]) -> Vec<u8> {
    let mut order: Vec<usize> = (0..LENGTHS.len()).collect();
    order.sort_by_key(|symbol| LENGTHS[*symbol]);
    let mut codes = [0u64; 257];
    let (mut code, mut length) = (0u64, 0);
    for symbol in order {
        code <<= LENGTHS[symbol] - length;
        length = LENGTHS[symbol];
        codes[symbol] = code;
        code += 1;
    }
    let mut bits: String =
        text.iter().map(|b| format!("{:0w$b}", codes[*b as usize], w = LENGTHS[*b as usize] as usize)).collect();
    while !bits.len().is_multiple_of(8) {
        bits.push('1');
    }
    bits.as_bytes().chunks(8).map(|byte| byte.iter().fold(0, |sum, bit| sum * 2 + (bit - b'0'))).collect()
}

#[test]
fn huffman_filling_is_short_and_of_ones() {
    let read = |bytes: &[u8]| {
        let mut out = Vec::new();
        decode(bytes, &mut out).map(|()| out)
    };
    assert_eq!(encode(b"www.example.com"), hex("f1e3 c2e5 f23a 6ba0 ab90 f4ff"));
    assert_eq!(read(&[]), Ok(vec![]));
    assert_eq!(read(&[0b0001_1111]), Ok(b"a".to_vec()));
    assert_eq!(read(&[0b0001_1110]), Err(NotHuffman), "filled with a zero");
    assert_eq!(read(&[0b0001_1111, 0xff]), Err(NotHuffman), "filled with 11 bits");
    assert_eq!(read(&[0xff; 4]), Err(NotHuffman), "the end symbol");
    assert_eq!(read(&[0xff]), Err(NotHuffman));
    assert_eq!(read(&hex("ffff fff0")), Err(NotHuffman), "30 bits and a filling of zeros");
}

proptest! {
    #[test]
    fn huffman_round_trip(text in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut out = Vec::new();
        prop_assert_eq!(decode(&encode(&text), &mut out), Ok(()));
        prop_assert_eq!(out, text);
    }

    #[test]
    fn huffman_reads_only_what_encodes_to_the_same(bytes in prop::collection::vec(any::<u8>(), 0..20)) {
        let mut out = Vec::new();
        if decode(&bytes, &mut out).is_ok() {
            prop_assert_eq!(&encode(&out), &bytes);
        }
        prop_assert!(out.len() <= bytes.len() * 8 / 5);
    }

    #[test]
    fn random_blocks_do_no_harm(blocks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..120), 0..30)) {
        let mut decoder = Decoder::new();
        for (nth, block) in blocks.iter().enumerate() {
            let mut lines = Vec::new();
            let part = [Part::Ignored, Part::Head, Part::Trailers][nth % 3];
            if decoder.read(block, &mut Fields::of(part, Some(&mut lines))).is_err() {
                break;
            }
            prop_assert!(decoder.table().bytes() <= TABLE_BYTES_MAX);
            prop_assert!(decoder.memory_bytes() <= 8 * TABLE_BYTES_MAX);
        }
    }

    /// The table is what the RFC says: a list, newest first, cut at the end. Of coded texts it may keep more.
    #[test]
    fn the_table_is_a_list_that_is_cut(
        adds in prop::collection::vec((0usize..60, 0usize..1500, 0usize..6000), 0..200),
        coded in any::<bool>(),
    ) {
        let mut table = Table::new();
        let mut list: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        let mut limit = TABLE_BYTES_MAX;
        for (nth, (name, value, resize)) in adds.into_iter().enumerate() {
            if resize < TABLE_BYTES_MAX && nth % 5 == 0 {
                limit = resize;
                table.resize(limit);
            }
            let new = (vec![b'a' + (nth % 26) as u8; name], vec![(nth % 256) as u8; value]);
            let texts = if coded { (encode(&new.0), encode(&new.1)) } else { new.clone() };
            let text = |bytes| Text { bytes, is_coded: coded };
            table.add(Kind::of(&new.0), Name::Text(text(&texts.0)), text(&texts.1));
            list.insert(0, new);
            let cost = |(name, value): &(Vec<u8>, Vec<u8>)| name.len() + value.len() + 32;
            while list.iter().map(cost).sum::<usize>() > limit {
                list.pop();
            }
            for (at, kept) in list.iter().enumerate() {
                prop_assert_eq!(table.kind(62 + at), Some(Kind::of(&kept.0)));
                prop_assert!(field(&table, 62 + at).as_ref() == Some(kept), "entry {at}");
            }
            prop_assert!(coded || table.kind(62 + list.len()).is_none());
            prop_assert!(table.kind(62 + limit / 32).is_none(), "more entries than a table can have");
            prop_assert!(table.memory_bytes() <= 16 * TABLE_BYTES_MAX);
        }
    }
}
