//! What a person can get wrong in a scenario, and how they are told.

use super::*;
use crate::scenario::script_from;
use crate::target::check_url;
use expect_test::{Expect, expect};
use prony_model::Stack;

const USERS: &str = "[workload.feed.users]\nfile = \"users.csv\"\n";

/// The plan of a workload; its feeds are `users.csv` and `mails.csv`.
fn plan(workload: &str) -> LoadPlan {
    let text = format!("entry = \"http://s1:81/own\"\n{workload}");
    let stack = Stack::parse("stack.toml", &text).unwrap();
    let read = |path: &str| match path {
        "users.csv" => Ok(b"name,password\nann,x\nbob,\"y\nz\"\n".to_vec()),
        "mails.csv" => Ok(b"name,mail\nann,a@b\n".to_vec()),
        _ => Err(std::io::ErrorKind::NotFound.into()),
    };
    let script = script_from(&stack.workload, &read).unwrap();
    let workload = stack.workload;
    LoadPlan {
        headers: workload.headers.into_iter().collect(),
        body: workload.body.unwrap_or_default().into_bytes(),
        requests: workload.requests,
        script,
        ..LoadPlan::to(&stack.entry)
    }
}

fn compile(workload: &str) -> Result<Option<Scenario>, LoadError> {
    let plan = plan(workload);
    let target = check_url(&plan.url).unwrap();
    Scenario::compile_prepare(&plan, &target)?;
    Scenario::compile(&plan, &target, None)
}

fn check(workload: &str, want: Expect) {
    want.assert_eq(&match compile(workload) {
        Ok(None) => "nothing changes".to_string(),
        Ok(Some(s)) => format!(
            "{} walks of {:?}, fixed {:?}",
            s.walk_count(),
            s.steps.iter().map(|step| step.label.as_str()).collect::<Vec<_>>(),
            (0..s.step_count()).map(|step| s.is_fixed(step as u32)).collect::<Vec<_>>()
        ),
        Err(error) => error.to_string(),
    });
}

#[test]
fn a_scenario_is_there_where_something_changes() {
    check("", expect!["nothing changes"]);
    check("[workload]\nrequests = [{ path = \"/a\" }]", expect!["nothing changes"]);
    check(USERS, expect!["nothing changes"]);
    check(
        "[workload]\nrequests = [{ path = \"/a\" }, { path = \"/${n}\" }]",
        expect![[r#"2 walks of ["/a", "/${n}"], fixed [true, false]"#]],
    );
    check("[workload]\nheaders = { X-Id = \"${n}\" }", expect![[r#"1 walks of ["/own"], fixed [false]"#]]);
    check("[workload]\nbody = '$${n}'", expect![[r#"1 walks of ["/own"], fixed [true]"#]]);
    check(
        "[[workload.step]]\nname = \"one\"\npath = \"/1\"\n[[workload.step]]\npath = \"/2?${n}\"",
        expect![[r#"1 walks of ["one", "/2?${n}"], fixed [true, false]"#]],
    );
}

#[test]
fn names_that_are_not_there() {
    check(
        &format!(
            "{USERS}[[workload.step]]\nname = \"login\"\npath = \"/login\"\nsave = {{ token = \"json:/token\" }}\n\
             [[workload.step]]\nname = \"query\"\npath = \"/q\"\nheaders = {{ Authorization = \"Bearer ${{tokn}}\" }}"
        ),
        expect![
            "`workload.step query, headers.Authorization`: `${tokn}` is neither saved by an earlier step nor a column of a feed; known: `n`, `token`, `users.name`, `users.password`; did you mean `token`?"
        ],
    );
    check(
        &format!("{USERS}[[workload.step]]\npath = \"/${{users.nam}}\""),
        expect![
            "`workload.step /${users.nam}, path`: feed `users` has no column `nam`; known: `name`, `password`; did you mean `name`?"
        ],
    );
    check(
        &format!("{USERS}[[workload.step]]\npath = \"/${{nam}}\""),
        expect![
            "`workload.step /${nam}, path`: `${nam}` is neither saved by an earlier step nor a column of a feed; known: `n`, `users.name`, `users.password`; did you mean `name`?"
        ],
    );
    check(
        "[[workload.step]]\nname = \"query\"\npath = \"/${token}\"\n\
         [[workload.step]]\nname = \"login\"\npath = \"/\"\nsave = { token = \"json:/token\" }",
        expect![
            "`workload.step query, path`: `${token}` is not saved yet: step `login` does that, and must come before this one"
        ],
    );
    check(
        &format!("{USERS}[workload.feed.mails]\nfile = \"mails.csv\"\n[[workload.step]]\npath = \"/${{name}}\""),
        expect![
            "`workload.step /${name}, path`: `${name}` may mean more than one thing: write `${mails.name}` or `${users.name}`"
        ],
    );
    check(
        &format!(
            "{USERS}[[workload.step]]\npath = \"/\"\nsave = {{ name = \"header:Name\" }}\n[[workload.step]]\npath = \"/${{name}}\""
        ),
        expect![
            "`workload.step /${name}, path`: `${name}` may mean more than one thing: write `${users.name}`, or save the value under another name"
        ],
    );
}

#[test]
fn what_would_not_be_http() {
    check(
        "[[workload.step]]\npath = \"/a b\"",
        expect![[
            r#"`workload.step /a b, path`: "/a b" is not a path: it begins with `/`, and other bytes are written as %XX"#
        ]],
    );
    check(
        "[[workload.step]]\npath = \"${n}\"",
        expect![[
            r#"`workload.step ${n}, path`: "${n}" is not a path: it begins with `/`, and other bytes are written as %XX"#
        ]],
    );
    check(
        "[[workload.step]]\npath = \"/\"\nmethod = \"G T\"",
        expect![[r#"`workload.step /, method`: "G T" is not a word of HTTP: write one like `GET`"#]],
    );
    check(
        "[[workload.step]]\npath = \"/\"\nheaders = { \"X Y\" = \"1\" }",
        expect![
            "`workload.step /, headers.X Y`: the name is not a word of HTTP: it is made of letters, digits and `-`"
        ],
    );
    check(
        "[[workload.step]]\npath = \"/\"\nheaders = { X = \"1\\r\\nY: 2\" }",
        expect![
            "`workload.step /, headers.X`: the value holds a line end, which would end the header that it stands in"
        ],
    );
    check(
        &format!("{USERS}[[workload.step]]\npath = \"/\"\nheaders = {{ X = \"${{password}}\" }}"),
        expect![
            "`workload.feed.users`: `password` of row 2 holds a line end, which would end the header that it stands in"
        ],
    );
    check(
        &format!("{USERS}[[workload.step]]\npath = \"${{name}}\""),
        expect!["`workload.feed.users`: `name` of row 1 does not begin with `/`, but a path begins with it"],
    );
    check(
        "[[workload.step]]\npath = \"/\"\nsave = { a = \"regex:(x\" }",
        expect!["`workload.step /, save.a`: `(x` is not a pattern that can be searched for: unclosed group"],
    );
    check(
        "[[workload.step]]\npath = \"/\"\nsave = { a = \"regex:(\\\\w{100}){1000}\" }",
        expect![[
            r#"`workload.step /, save.a`: `(\w{100}){1000}` is not a pattern that can be searched for: Compiled regex exceeds size limit of 4194304 bytes."#
        ]],
    );
}

#[test]
fn what_is_prepared_is_known_before_it_is_there() {
    let prepare =
        "[workload.prepare]\ncount = 3\n[[workload.prepare.step]]\npath = \"/new\"\nsave = { token = \"json:\" }\n";
    check(
        &format!("{prepare}[[workload.step]]\npath = \"/${{prepared.token}}/${{token}}\""),
        expect![[r#"1 walks of ["/${prepared.token}/${token}"], fixed [false]"#]],
    );
    check(
        &format!("{prepare}[[workload.step]]\npath = \"/${{prepared.tokn}}\""),
        expect![
            "`workload.step /${prepared.tokn}, path`: feed `prepared` has no column `tokn`; known: `token`; did you mean `token`?"
        ],
    );
    check(
        &prepare.replace("/new", "/new/${token}"),
        expect![
            "`workload.prepare.step /new/${token}, path`: `${token}` is not saved yet: step `/new/${token}` does that, and must come before this one"
        ],
    );
    let mut empty = plan(USERS);
    empty.requests = vec![own_request("/${users.name}")];
    empty.script.as_mut().unwrap().feeds.get_mut("users").unwrap().rows.clear();
    let error = Scenario::compile(&empty, &check_url(&empty.url).unwrap(), None).unwrap_err();
    assert_eq!(error.to_string(), "`workload.feed.users`: has no rows: a template would have nothing to stand for");
}

#[test]
fn a_body_that_is_no_text_is_no_template() {
    let mut plan = plan("");
    plan.body = b"\xff${picture".to_vec();
    let target = check_url(&plan.url).unwrap();
    assert!(Scenario::compile(&plan, &target, None).unwrap().is_none());
    plan.body = b"${text".to_vec();
    assert!(Scenario::compile(&plan, &target, None).is_err());
}
