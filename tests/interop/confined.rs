//! The second table of `make interop`: servers of many kinds, each confined with the least that its entry must name.
//!
//! They take 0.9 GB. So no other test installs them, and the ordinary tests only check that the table names the pinned versions.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::support::engines::cache;
use super::support::http_fixture::HttpFixture;
use super::support::{Bridge, Engine, Home};
use super::{called, table};

const PAGE: &str = "docs/reference/compatibility.md";
const HEAD: &str =
    "| server | version | for | started with | `sandbox` | called |\n|---|---|---|---|---|---|\n";
const PINS: [&str; 3] = ["package.json", "requirements.in", "requirements-uv.in"];
/// Packages that are pinned beside the servers: a browser, and what starts servers.
const NO_SERVERS: [&str; 2] = ["@sparticuz/chromium", "uv"];
const SERVERS_MIN: usize = 10;
const PAPER: &str = "2401.00001";

/// A server, how it is started, and what is done with it.
struct Case {
    package: &'static str,
    kind: &'static str,
    /// The program of its entry, as the table names it.
    started_with: &'static str,
    entry: Value,
    /// Calls tools of `s`, and asserts what they answer.
    code: String,
    /// A file that the calls have made, and its first bytes.
    made: Option<(PathBuf, &'static [u8])>,
}

#[test]
#[ignore = "needs 0.9 GB of servers; `make interop` installs them and runs it"]
fn more_real_servers_work_confined() {
    let engine = Engine::any().expect("an engine is there");
    let home = Home::on(&engine)
        .file("data/cell.js", "const cell = hot;\n")
        .file("data/eslint.config.mjs", "export default [{rules: {'no-undef': 'error'}}];\n")
        .file(
            "data/cells.drawio",
            "<mxfile><diagram id=\"a\" name=\"Cells\"><mxGraphModel/></diagram></mxfile>\n",
        )
        .file(&format!("data/papers/{PAPER}.md"), "# Cells\nHot ones.\n");
    let page = HttpFixture::start(|_, stream| {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close";
        write!(stream, "{head}\r\n\r\n<title>Cells</title><h1>Cells</h1><p>Hot ones.</p>")
    });
    // The server of notes takes paths in lower case only.
    let vault = format!("belljar-vault-{}", std::process::id());
    let vault = tempfile::Builder::new().prefix(&vault).rand_bytes(0).tempdir().unwrap();
    std::fs::write(vault.path().join("hot.md"), "# Cells\nHot ones.\n").unwrap();
    let versions = versions();
    let data = home.path().join("data");
    let mut cases = node_servers(&data, vault.path());
    cases.extend(python_servers(&data, &versions));
    cases.extend(servers_of_the_web(&page.url, &versions));
    assert!(cases.len() >= SERVERS_MIN);
    let names: Vec<String> = (0..cases.len()).map(|number| format!("s{number}")).collect();
    let home =
        names.iter().zip(&cases).fold(home, |home, (name, case)| home.server(name, case.entry.clone()));
    let mut bridge = Bridge::start(&home).warm();
    let mut table = String::from(HEAD);
    for (name, case) in names.iter().zip(&cases) {
        let called = called(&mut bridge, name, &case.code);
        if let Some((file, start)) = &case.made {
            let content = std::fs::read(file).unwrap();
            assert!(content.starts_with(start), "{}: {}", case.package, file.display());
        }
        let Case { package, kind, started_with, entry, .. } = case;
        let (version, sandbox) = (&versions[*package], in_table(&entry["sandbox"]));
        let row = format!("| {package} | {version} | {kind} | {started_with} | {sandbox} | {called} |\n");
        table.push_str(&row);
    }
    table::check(PAGE, "interop", "confined", &table);
}

#[test]
fn confined_page_names_the_pinned_versions() {
    let written = table::written(PAGE, "interop", "confined");
    let rows = written.lines().skip(2).map(|line| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        (cells[1].to_owned(), cells[2].to_owned())
    });
    let mut pinned = versions();
    pinned.retain(|package, _| !NO_SERVERS.contains(&package.as_str()));
    assert_eq!(rows.collect::<BTreeMap<_, _>>(), pinned, "`make interop` writes the table anew");
}

fn versions() -> BTreeMap<String, String> {
    table::versions("more_servers", &PINS)
}

/// The keys of an entry's sandbox, or `true`.
fn in_table(sandbox: &Value) -> String {
    let keys: BTreeSet<&String> = sandbox.as_object().into_iter().flatten().map(|(key, _)| key).collect();
    match keys.is_empty() {
        true => format!("`{sandbox}`"),
        false => keys.into_iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", "),
    }
}

fn at(path: &str) -> PathBuf {
    cache().join("more-servers").join(path)
}

fn node_servers(data: &Path, vault: &Path) -> Vec<Case> {
    let modules = |path: &str| at("node/node_modules").join(path);
    let folder = data.display();
    vec![
        Case {
            package: "@drawio/mcp",
            kind: "diagrams",
            started_with: "`node`",
            entry: json!({
                "command": "node", "args": [modules("@drawio/mcp/src/index.js")], "sandbox": {"write": [data]}
            }),
            code: format!(
                "path = '{folder}/cells.drawio'\n\
                 assert (await s.list_pages(path=path))[0]['name'] == 'Cells'\n\
                 page = '<mxGraphModel><root><mxCell id=\"0\" value=\"hot\"/></root></mxGraphModel>'\n\
                 await s.set_page(path=path, page='Cells', content=page)\n\
                 assert await s.get_page(path=path, page='0') == page"
            ),
            made: None,
        },
        Case {
            package: "@eslint/mcp",
            kind: "code analysis",
            started_with: "its script",
            entry: json!({"command": modules(".bin/mcp"), "cwd": data, "sandbox": {"read": [data]}}),
            code: format!(
                "_, found, _ = await s.lint_files(filePaths=['{folder}/cell.js'])\n\
                 assert [m['message'] for m in found['messages']] == [\"'hot' is not defined.\"], found"
            ),
            made: None,
        },
        Case {
            package: "mcp-echarts",
            kind: "charts",
            started_with: "its script",
            entry: json!({"command": modules(".bin/mcp-echarts"), "sandbox": true}),
            code: "data = [{'category': 'hot', 'value': 1}, {'category': 'cold', 'value': 3}]\n\
                   chart = await s.generate_bar_chart(data=data, title='Cells', outputType='svg')\n\
                   assert all(text in chart for text in ('<svg', '>Cells<', '>hot<', '>cold<')), chart\n\
                   image = await s.generate_bar_chart(data=data, title='Cells')\n\
                   assert image.mime_type == 'image/png' and image.data.startswith(b'\\x89PNG')"
                .to_owned(),
            made: None,
        },
        Case {
            package: "mcp-obsidian",
            kind: "notes",
            started_with: "its script",
            entry: json!({"command": modules(".bin/mcp-obsidian"), "args": [vault], "sandbox": {"read": [vault]}}),
            code: "assert 'hot.md' in await s.search_notes(query='hot')\n\
                   assert 'Hot ones.' in await s.read_notes(paths=['hot.md'])"
                .to_owned(),
            made: None,
        },
        Case {
            package: "mcp-server-commands",
            kind: "commands",
            started_with: "its script",
            entry: json!({"command": modules(".bin/mcp-server-commands"), "sandbox": {"write": [data]}}),
            code: format!(
                "command = \"printf '7\\\\n42\\\\n9\\\\n' | sort -n | tail -n 1 | tee hottest.txt\"\n\
                 assert (await s.run_command(command=command, workdir='{folder}')).strip() == '42'"
            ),
            made: Some((data.join("hottest.txt"), b"42\n")),
        },
    ]
}

fn python_servers(data: &Path, versions: &BTreeMap<String, String>) -> Vec<Case> {
    let program = |name: &str| at("python/bin").join(name);
    let folder = data.display();
    let book = data.join("cells.xlsx");
    let excel = "@negokaz/excel-mcp-server/dist/excel-mcp-server_linux_amd64_v1/excel-mcp-server";
    let arxiv = "arxiv-mcp-server";
    vec![
        Case {
            package: "excel-mcp-server",
            kind: "spreadsheets",
            started_with: "its script",
            entry: json!({"command": program("excel-mcp-server"), "args": ["stdio"], "sandbox": {"write": [data]}}),
            code: format!(
                "path = '{folder}/cells.xlsx'\n\
                 await s.create_workbook(path=path)\n\
                 await s.write_range(path=path, sheet='Sheet1', at='A1', rows=[[1], [2], [3], ['=SUM(A1:A3)']])\n\
                 sheet = await s.read_range(path=path, sheet='Sheet1')\n\
                 assert sheet['values'] == [[1], [2], [3], [6]], sheet"
            ),
            made: Some((book.clone(), b"PK\x03\x04")),
        },
        // It changes workbooks, and makes none: this is the one above.
        Case {
            package: "@negokaz/excel-mcp-server",
            kind: "spreadsheets",
            started_with: "its binary",
            entry: json!({"command": at("node/node_modules").join(excel), "sandbox": {"write": [data]}}),
            code: format!(
                "book = {{'fileAbsolutePath': '{folder}/cells.xlsx', 'sheetName': 'Hot'}}\n\
                 cells = [[20], ['=A1+SUM(Sheet1!A1:A3)']]\n\
                 await s.excel_write_to_sheet(**book, newSheet=True, range='A1:A2', values=cells)\n\
                 assert '<td>26</td>' in await s.excel_read_sheet(**book)"
            ),
            made: Some((book, b"PK\x03\x04")),
        },
        Case {
            package: "office-word-mcp-server",
            kind: "documents",
            started_with: "`python`",
            entry: json!({
                "command": program("python"), "args": ["-m", "word_document_server.main"],
                "sandbox": {"write": [data]}
            }),
            code: format!(
                "path = '{folder}/cells.docx'\n\
                 await s.create_document(filename=path)\n\
                 await s.add_paragraph(filename=path, text='Hot ones.')\n\
                 assert await s.get_document_text(filename=path) == 'Hot ones.'"
            ),
            made: Some((data.join("cells.docx"), b"PK\x03\x04")),
        },
        Case {
            package: "mcp-server-motherduck",
            kind: "databases",
            started_with: "its script",
            entry: json!({
                "command": program("mcp-server-motherduck"),
                "args": ["--db-path", data.join("cells.duckdb"), "--read-write"],
                "sandbox": {"write": [data]}
            }),
            code: "await s.execute_query(sql='create table cells as select range as heat from range(10)')\n\
                   found = await s.execute_query(sql='select sum(heat) from cells')\n\
                   assert found['rows'] == [[45]], found\n\
                   assert (await s.list_tables())['tables'][0]['name'] == 'cells'"
                .to_owned(),
            made: Some((data.join("cells.duckdb"), b"")),
        },
        Case {
            package: arxiv,
            kind: "papers",
            started_with: "`uvx`",
            entry: json!({
                "command": program("uvx"),
                "args": [
                    "--constraints", at("uv/constraints.txt"), "--from", format!("{arxiv}=={}", versions[arxiv]),
                    arxiv, "--storage-path", data.join("papers")
                ],
                "env": {"UV_CACHE_DIR": at("uv/cache")},
                "sandbox": {"write": [data]}
            }),
            code: format!(
                "assert (await s.list_papers())['papers'][0]['title'] == 'Cells'\n\
                 assert 'Hot ones.' in (await s.read_paper(paper_id='{PAPER}'))['content']\n\
                 found = await s.search_paper_text(paper_id='{PAPER}', query='hot')\n\
                 assert found['returned_passages'] == 1, found"
            ),
            made: None,
        },
    ]
}

/// Servers whose purpose is the network.
fn servers_of_the_web(page: &str, versions: &BTreeMap<String, String>) -> Vec<Case> {
    let playwright = "@playwright/mcp";
    vec![
        Case {
            package: "duckduckgo-mcp-server",
            kind: "the web",
            started_with: "its program of `uv tool`",
            entry: json!({
                "command": at("uv/bin/duckduckgo-mcp-server"), "args": ["--allow-private-urls"],
                "sandbox": {"network": "host"}
            }),
            code: format!("assert 'Hot ones.' in await s.fetch_content(url='{page}')"),
            made: None,
        },
        Case {
            package: playwright,
            kind: "browsers",
            started_with: "`npx`",
            entry: json!({
                "command": "npx",
                "args": [
                    "-y", format!("{playwright}@{}", versions[playwright]), "--headless", "--isolated",
                    "--no-sandbox", "--executable-path", at("chromium/chromium")
                ],
                "env": {"npm_config_cache": at("npx"), "LD_LIBRARY_PATH": at("chromium/lib")},
                "sandbox": {"read": [at("chromium")], "network": "host"}
            }),
            code: format!(
                "await s.browser_navigate(url='{page}')\n\
                 assert 'Hot ones.' in await s.browser_snapshot()\n\
                 script = '() => document.title + document.querySelectorAll(\"p\").length'\n\
                 assert 'Cells1' in await s.browser_evaluate(function=script)\n\
                 _, image = await s.browser_take_screenshot()\n\
                 assert image.data.startswith(b'\\x89PNG')"
            ),
            made: None,
        },
    ]
}
