//! Images that the user has built: with a package, locked, put to use and removed again; what they cannot be is said.

use serde_json::{Value, json};

use crate::support::engines::Registry;
use crate::support::images::{building, on_another_base};
use crate::support::{Bridge, Engine, Home};
use crate::{on_every_container_engine, on_every_engine};

on_every_engine!(
    libraries_with_threads_are_used_again_after_a_rollback_or_are_said_not_to_work,
    an_image_with_a_package_is_built_used_built_again_from_its_lock_and_removed,
    what_cannot_be_installed_is_said_with_pips_own_words_and_leaves_no_image,
    the_usual_image_has_a_data_science_set_and_no_client_of_the_network,
);

on_every_container_engine!(
    what_an_image_is_built_on_is_the_user_s_choice,
    one_that_is_not_belljar_s_gets_the_usual_packages_first,
    an_image_of_a_registry_is_pulled_by_its_digest_alone,
    an_image_that_another_version_has_built_is_named,
    the_engine_s_images_and_the_machine_s_environments_are_both_found_to_be_removed,
);

/// The command succeeds; what it wrote to stdout.
fn done(home: &Home, arguments: &[&str]) -> String {
    let output = home.run(arguments);
    assert_eq!(output.code, Some(0), "{arguments:?}: {}", output.stderr);
    output.stdout
}

/// Has no image of this name stay, whatever comes.
struct Gone<'e> {
    engine: &'e Engine,
    name: String,
}

impl Drop for Gone<'_> {
    fn drop(&mut self) {
        if self.engine.is_process() {
            // It fails where the test has removed it.
            Home::on(self.engine).run(&["image", "rm", &self.name]);
            return;
        }
        self.engine.remove_image(&format!("localhost/belljar/{}:latest", self.name));
    }
}

/// A name that no other test's image has, also in another checkout.
fn own_name(of: &str) -> String {
    format!("test-{of}-{}", std::process::id())
}

fn an_image_of_a_registry_is_pulled_by_its_digest_alone(engine: &Engine) {
    let Some(registry) = Registry::find() else { return };
    let home = Home::on(engine);
    // The names say the engine, since all share the registry.
    let [name, strange, other] =
        ["pulled", "strange", "other"].map(|of| format!("{}-{}", own_name(of), engine.name));
    let _gone = Gone { engine, name: name.clone() };
    let built_with = |name: &str, label: &str| {
        let recipe = format!("FROM scratch\nLABEL {label}\nCOPY content /\n");
        let local = format!("localhost/{name}:latest");
        engine.build_image(&local, &[("Dockerfile", &recipe), ("content", name)]);
        let reference = engine.push_image(&local, &registry);
        engine.remove_image(&local);
        reference
    };
    let built = |name: &str, label: &str| built_with(name, &format!("{label}={name}"));
    let built_as = |file: &str, name: &str| built_with(file, &format!("org.belljar.image={name}"));
    let ours = built(&name, "org.belljar.image");
    let said = done(&home, &["image", "pull", &ours, "--use"]);
    let local = format!("localhost/belljar/{name}:latest");
    assert!(said.contains(&format!("pulled {local}, 0 MB\nsandbox.image is {local}")), "{said}");
    let listed = done(&home, &["image", "ls"]);
    assert!(listed.lines().any(|line| line.starts_with(&format!("* {name} "))), "{listed}");
    // Another image of that name takes its place only if that is asked for.
    let newer = built_as(&other, &name);
    let kept = home.run(&["image", "pull", &newer]);
    assert!(kept.code == Some(1) && kept.stderr.contains("another image has its name"), "{}", kept.stderr);
    done(&home, &["image", "pull", &newer, "--use"]);
    done(&home, &["image", "use", "default"]);
    done(&home, &["image", "rm", &name]);
    let as_default = built_with(&other, concat!("org.belljar.content=belljar-", env!("CARGO_PKG_VERSION")));
    let kept = home.run(&["image", "pull", &as_default]);
    let why = "belljar's own image is another one; --use replaces";
    assert!(kept.code == Some(1) && kept.stderr.contains(why), "{}", kept.stderr);
    // It had no other name that would keep it.
    assert!(!engine.has_image(&local) && !engine.has_image(&ours));

    let refused = |reference: &str, why: &str| {
        let output = home.run(&["image", "pull", reference]);
        assert!(output.code != Some(0) && output.stderr.contains(why), "{reference}: {}", output.stderr);
        assert!(!engine.has_image(&local) && !engine.has_image(reference), "{reference}");
    };
    refused(&built(&strange, "org.example"), "the image is not one that belljar has built");
    refused(ours.split_once('@').unwrap().0, "must end with the image's digest");
    refused(
        &format!("{}@sha256:{}", ours.split_once('@').unwrap().0, "0".repeat(64)),
        "the image was not pulled: ",
    );
    registry.exchange(&ours, &built(&other, "org.belljar.image"));
    refused(&ours, "the image was not pulled: ");

    // This build names no published image, and everything that it would build is there.
    let output = home.run(&["image", "pull"]);
    assert!(
        output.stderr.contains("names no published image; so the image is built on this machine"),
        "{}",
        output.stderr
    );
    assert!(output.stderr.contains("has the usual packages already"), "{}", output.stderr);
}

fn the_engine_s_images_and_the_machine_s_environments_are_both_found_to_be_removed(engine: &Engine) {
    let home = Home::on(engine);
    home.share_environments(&crate::support::environments::usual());
    let said = done(&home, &["uninstall", "--all", "--dry-run"]);
    let places = ["unix://", home.path().to_str().unwrap()];
    for place in places {
        let line = format!("  the image localhost/belljar-sandbox:latest in {place}");
        assert!(said.lines().any(|found| found.starts_with(&line)), "{said}");
    }
}

fn an_image_that_another_version_has_built_is_named(engine: &Engine) {
    let name = own_name("older");
    let _gone = Gone { engine, name: name.clone() };
    let reference = format!("localhost/belljar/{name}:latest");
    let recipe = "FROM localhost/belljar-sandbox:latest\nLABEL org.belljar.content=belljar-0.0.1\n";
    engine.build_image(&reference, &[("Dockerfile", recipe)]);
    let told = |home: &Home| {
        home.run(&["doctor"]).stdout.contains("belljar 0.0.1 has built it; `belljar image build --locked")
    };
    assert!(told(&Home::on(engine).env("MCP_BRIDGE_IMAGE", &reference)));
    assert!(!told(&Home::on(engine)));
}

fn an_image_with_a_package_is_built_used_built_again_from_its_lock_and_removed(engine: &Engine) {
    let home = building(engine);
    let name = own_name("used");
    let more = format!("{name}-more");
    let _gone = [&name, &more].map(|name| Gone { engine, name: name.clone() });
    let reference = format!("localhost/belljar/{name}:latest");
    let said = done(&home, &["image", "build", "--with", "mdurl==0.1.2", "--name", &name]);
    let lock = home.path().join(format!(".config/belljar/images/{name}.lock"));
    assert!(said.contains(&format!("built {reference}, ")), "{said}");
    assert!(said.contains(&format!("locked 1 packages in {}", lock.display())), "{said}");
    let locked = std::fs::read_to_string(&lock).unwrap();
    let line = locked.lines().last().unwrap();
    assert!(line.starts_with("mdurl==0.1.2 --hash=sha256:"), "{locked}");
    let python = std::fs::canonicalize("/usr/bin/python3").unwrap();
    let base = match engine.is_process() {
        true => python.to_str().unwrap(),
        false => "localhost/belljar-sandbox:latest",
    };
    assert!(locked.contains(&format!("# base: {base}\n")), "{locked}");

    if engine.is_process() {
        let environments = home.path().join(".local/share/belljar/environments");
        let version = python.to_str().unwrap().rsplit_once('/').unwrap().1;
        let file = |name: &str| {
            let path = environments.join(name).join(format!("lib/{version}/site-packages/numpy/__init__.py"));
            std::os::unix::fs::MetadataExt::ino(&path.metadata().unwrap())
        };
        assert_eq!(file(&name), file("default"), "its files are those of the default one");
    }

    // It is not in use before it is told to be.
    let import =
        ["run", "-c", "import mdurl, pandas; from mcp import runtime; print(runtime.packages()['mdurl'])"];
    let missing = home.run(&import);
    assert!(missing.stderr.contains("belljar image build --with mdurl --use"), "{}", missing.stderr);
    let said = done(&home, &["image", "use", &name]);
    assert!(said.starts_with(&format!("sandbox.image is {reference} in ")), "{said}");
    assert_eq!(done(&home, &import), "0.1.2\n");
    let config = done(&home, &["config"]);
    let line = config.lines().find(|line| line.starts_with("sandbox.image")).unwrap();
    assert!(line.contains(&reference) && line.contains("/config.toml:2:"), "{line}");
    let listed = done(&home, &["image", "ls"]);
    let row = |name: &str| {
        listed.lines().find(|line| line[2..].starts_with(&format!("{name} "))).unwrap().to_owned()
    };
    assert!(row(&name).starts_with("* ") && row(&name).ends_with("with mdurl==0.1.2"), "{listed}");
    assert!(row("default").starts_with("  "), "{listed}");
    let kept = home.run(&["image", "rm", &name]);
    assert!(kept.code == Some(2) && kept.stderr.contains("is what sandboxes are made of"), "{}", kept.stderr);

    let rows = done(&home, &["image", "ls", "--json"]);
    let mut rows = rows.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let row = rows.find(|row| row["name"] == name.as_str()).unwrap();
    assert_eq!(
        (&row["reference"], &row["used"], &row["with"], &row["base"]),
        (&json!(reference), &json!(true), &json!(["mdurl==0.1.2"]), &json!(base))
    );

    // What is added to it is built on what it was built on.
    done(&home, &["image", "build", "--with", "ptyprocess", "--name", &more]);
    let listed = done(&home, &["image", "ls"]);
    let row = listed.lines().find(|line| line.contains(&format!(" {more} "))).unwrap();
    assert!(row.ends_with(&format!("on {base}, with mdurl==0.1.2 ptyprocess")), "{row}");

    let shown = home.on_terminal(&["image", "build", "--locked", &name], &[("TERM", "xterm")]);
    let step = if engine.is_process() { format!(" building {reference} ") } else { " step ".to_owned() };
    let is_step = |line: &str| line.split('\r').next().unwrap().to_lowercase().contains(&step);
    assert!(shown.split("00:00:").skip(1).any(is_step), "{shown:?}");
    assert!(shown.contains(&format!("built {reference}, ")), "{shown:?}");
    assert_eq!(std::fs::read_to_string(&lock).unwrap(), locked);
    assert_eq!(done(&home, &import), "0.1.2\n");
    done(&home, &["image", "use", "default"]);
    assert!(home.run(&import).stderr.contains("ModuleNotFoundError"));
    for name in [&name, &more] {
        done(&home, &["image", "rm", name]);
    }
    assert!(!lock.exists() && !done(&home, &["image", "ls"]).contains(&name));
    let unknown = home.run(&["image", "use", &name]);
    assert!(
        unknown.code == Some(2) && unknown.stderr.contains(&format!("has no image {name}")),
        "{}",
        unknown.stderr
    );
}

fn what_an_image_is_built_on_is_the_user_s_choice(engine: &Engine) {
    let home = building(engine);
    let [below, other] = ["below", "other"].map(own_name);
    let _gone = [&below, &other].map(|name| Gone { engine, name: name.clone() });
    done(&home, &["image", "build", "--with", "mdurl==0.1.2", "--name", &below, "--use"]);
    let from = ["--from", "localhost/belljar-sandbox:latest", "--with", "ptyprocess"];
    done(&home, &[&["image", "build", "--name", &other], &from[..]].concat());
    let listed = done(&home, &["image", "ls"]);
    let row = listed.lines().find(|line| line.contains(&format!(" {other} "))).unwrap();
    assert!(row.ends_with("on localhost/belljar-sandbox:latest, with ptyprocess"), "{row}");
    done(&home, &["image", "use", &other]);
    let code = "import ptyprocess\nfrom mcp import runtime\nprint('mdurl' in runtime.packages())";
    assert_eq!(done(&home, &["run", "-c", code]), "False\n");
    let nothing = ["image", "build", "--from", "localhost/belljar-no-such:1", "--with", "ptyprocess"];
    let failed = home.run(&nothing);
    let last = failed.stderr.lines().last().unwrap();
    assert!(failed.code == Some(1) && last.starts_with("belljar: the image was not built: "), "{last}");
}

fn one_that_is_not_belljar_s_gets_the_usual_packages_first(engine: &Engine) {
    let Some(home) = on_another_base(engine) else {
        return eprintln!("SKIPPED: {} has not what its sandbox image is built on", engine.name);
    };
    let code = "import numpy, pandas, sklearn, ptyprocess\nprint('there')";
    assert_eq!(done(&home, &["run", "-c", code]), "there\n");
    // The older copy of matplotlib in the base is gone as a whole, so its `mpl_toolkits` hides no 3-D plots.
    let code = "import os, sys\nimport matplotlib.pyplot as plt\nplt.figure().add_subplot(projection='3d').plot([1], [2], [3])\n\
                from mcp import runtime\nprint([p for p in sys.path if os.path.exists(p + '/mpl_toolkits/__init__.py')])\n\
                print([line for line in repr(runtime.packages()).splitlines() if 'hidden' in line])";
    let said = "[]\n['also there, and hidden by other versions: pandas 1.5.3']\n";
    assert_eq!(done(&home, &["run", "-c", code]), said);
}

fn what_cannot_be_installed_is_said_with_pips_own_words_and_leaves_no_image(engine: &Engine) {
    let home = building(engine);
    let name = own_name("refused");
    let _gone = Gone { engine, name: name.clone() };
    for (package, says) in [
        ("mdurl==0.0.0.1", "No matching distribution found for mdurl==0.0.0.1"),
        ("numpy==1.26.0", "Cannot install numpy==1.26.0"),
    ] {
        let failed = home.run(&["image", "build", "--with", package, "--name", &name]);
        let last = failed.stderr.lines().last().unwrap();
        assert_eq!(failed.code, Some(1), "{}", failed.stderr);
        assert!(
            last.starts_with("belljar: the image was not built: ERROR: ") && last.contains(says),
            "{last}"
        );
    }
    let cut_off = building(engine).env("PIP_INDEX_URL", "http://127.0.0.1:9/simple");
    let failed = cut_off.run(&["image", "build", "--with", "mdurl", "--name", &name]);
    let last = failed.stderr.lines().last().unwrap();
    assert!(
        last.starts_with("belljar: the image was not built: ERROR: ")
            && last.contains("a registry of packages or images could not be reached: check the network, or set PIP_INDEX_URL"),
        "{last}"
    );
    assert!(!done(&home, &["image", "ls"]).contains(&name));
    let missing = home.run(&["image", "build", "--locked", &name]);
    assert!(missing.code == Some(2) && missing.stderr.contains("No such file"), "{}", missing.stderr);
    let nothing = home.run(&["image", "build"]);
    assert!(nothing.code == Some(2) && nothing.stderr.contains("say what to add"), "{}", nothing.stderr);
}

fn the_usual_image_has_a_data_science_set_and_no_client_of_the_network(engine: &Engine) {
    let mut bridge = Bridge::start(&Home::on(engine)).warm();
    for module in [
        "numpy",
        "pandas",
        "scipy.stats",
        "sklearn.linear_model",
        "matplotlib.pyplot",
        "seaborn",
        "pyarrow",
        "polars",
        "openpyxl",
    ] {
        bridge.ok(&format!("import {module}"));
    }
    let code = "from mcp import runtime\nsorted({'requests', 'urllib3', 'httpx', 'aiohttp'} & set(runtime.packages()))";
    assert_eq!(bridge.ok(code), "[]");
    let fit = "import numpy as np\nx = np.arange(10.0).reshape(-1, 1)\n\
               model = sklearn.linear_model.LinearRegression().fit(x, 3 * x.ravel() + 1)\n\
               [round(float(model.coef_[0]), 6), polars.DataFrame({'a': [1, 2, 3]})['a'].sum()]";
    assert!(bridge.ok(fit).starts_with("[3.0, 6]"));
}

fn libraries_with_threads_are_used_again_after_a_rollback_or_are_said_not_to_work(engine: &Engine) {
    let mut bridge = Bridge::start(&Home::on(engine)).warm();
    bridge.ok("import numpy as np\nfrom sklearn.ensemble import HistGradientBoostingClassifier as Model\n\
               x = np.random.rand(500, 3)\nmodel = Model(max_iter=5).fit(x, x[:, 0] > 0.5)");
    lose_the_worker(&mut bridge);
    assert_eq!(bridge.ok("model.fit(x, x[:, 0] > 0.5).n_iter_"), "5");
    bridge.ok("import polars\nframe = polars.DataFrame({'a': [2, 1]}).sort('a')");
    lose_the_worker(&mut bridge);
    let said = bridge.ok("len(x)");
    assert!(said.contains("note: polars does not work after a rollback"), "{said}");
}

fn lose_the_worker(bridge: &mut Bridge) {
    // A large copy is made when nobody waits.
    std::thread::park_timeout(std::time::Duration::from_millis(500));
    let lost = bridge.run("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)").text;
    assert!(lost.ends_with("state: variables as before this run"), "{lost}");
}
