//! The demo's script, kubectl, helm and psql as a person would call them.

use std::cell::OnceCell;
use std::error::Error;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

pub type Outcome<T = ()> = Result<T, Box<dyn Error>>;

const NAMESPACE: &str = "payments";

/// A demo with a name of its own; it goes when this does.
pub struct Demo {
    name: String,
    bin: OnceCell<PathBuf>,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

impl Demo {
    /// Named after the checkout, so that two may run at once, and the next run finds what a crash
    /// left.
    pub fn new() -> Self {
        let mut hasher = DefaultHasher::new();
        root().hash(&mut hasher);
        Self {
            name: format!("test-demo-{:06x}", hasher.finish() & 0xff_ffff),
            bin: OnceCell::new(),
        }
    }

    fn script(&self, verb: &str) -> Command {
        let mut command = Command::new(root().join("examples/payments/demo/demo"));
        command
            .arg(verb)
            .env("SQLSTREAMS_DEMO_NAME", &self.name)
            .env_remove("SQLSTREAMS_DEMO_PUBLISH");
        command.stdin(Stdio::null());
        command
    }

    /// What it prints, which goes to the screen as well.
    pub fn up(&self) -> Outcome<String> {
        let mut child = self.script("up").stdout(Stdio::piped()).spawn()?;
        let mut story = String::new();
        for line in BufReader::new(child.stdout.take().ok_or("no output")?).lines() {
            let line = line?;
            println!("{line}");
            story += &line;
            story.push('\n');
        }
        if child.wait()?.success() {
            Ok(story)
        } else {
            Err("make demo failed".into())
        }
    }

    pub fn down(&self) -> Outcome {
        run(&mut self.script("down"))?;
        let list = run(Command::new(root().join("tests/cluster/cluster")).arg("list"))?;
        let left = list
            .lines()
            .any(|line| line.split_whitespace().next() == Some(self.name.as_str()));
        if left {
            Err(format!("{} is still listed", self.name).into())
        } else {
            Ok(())
        }
    }

    fn cluster(&self, arguments: &[&str]) -> Outcome<String> {
        run(Command::new(root().join("tests/cluster/cluster")).args(arguments))
    }

    pub fn kubeconfig(&self) -> Outcome<String> {
        self.cluster(&["kubeconfig", &self.name])
    }

    fn tool(&self, name: &str) -> Outcome<Command> {
        if self.bin.get().is_none() {
            let bin = self.cluster(&["bin"])?;
            // Nobody else is there to have set it.
            let _ = self.bin.set(bin.into());
        }
        let mut command = Command::new(self.bin.get().ok_or("no tools")?.join(name));
        command.current_dir(root()).env("KUBECONFIG", self.kubeconfig()?);
        Ok(command)
    }

    pub fn kubectl(&self, namespace: &str, arguments: &[&str]) -> Outcome<String> {
        run(self.tool("kubectl")?.args(["--namespace", namespace]).args(arguments))
    }

    pub fn helm(&self, arguments: &[&str]) -> Outcome<String> {
        run(self.tool("helm")?.args(arguments))
    }

    /// What a JSONPath finds in an object of the example.
    pub fn get(&self, object: &str, path: &str) -> Outcome<String> {
        self.kubectl(NAMESPACE, &["get", object, &format!("--output=jsonpath={path}")])
    }

    pub fn status(&self, object: &str, field: &str) -> Outcome<String> {
        self.get(object, &format!("{{.status.{field}}}"))
    }

    pub fn wait_ready(&self, object: &str) -> Outcome {
        self.kubectl(NAMESPACE, &["wait", "--for=condition=Ready", "--timeout=90s", object])?;
        Ok(())
    }

    pub fn apply_example(&self) -> Outcome {
        self.kubectl(NAMESPACE, &["apply", "--filename=examples/payments"])?;
        Ok(())
    }

    pub fn apply(&self, manifest: &str) -> Outcome {
        let mut child = self
            .tool("kubectl")?
            .args(["--namespace", NAMESPACE, "apply", "--filename=-"])
            .stdin(Stdio::piped())
            .spawn()?;
        child.stdin.take().ok_or("no input")?.write_all(manifest.as_bytes())?;
        if child.wait()?.success() {
            Ok(())
        } else {
            Err("kubectl apply failed".into())
        }
    }

    /// Runs a statement as the owner of the database; columns are divided by `|`.
    pub fn sql(&self, statement: &str) -> Outcome<String> {
        self.psql("payments", statement)
    }

    pub fn superuser_sql(&self, statement: &str) -> Outcome<String> {
        self.psql("postgres", statement)
    }

    fn psql(&self, user: &str, statement: &str) -> Outcome<String> {
        let psql = [
            "exec",
            "deployment/postgres",
            "--",
            "psql",
            "--username",
            user,
            "--dbname=payments",
        ];
        let form = [
            "--no-psqlrc",
            "--tuples-only",
            "--no-align",
            "--set=ON_ERROR_STOP=1",
            "--command",
            statement,
        ];
        self.kubectl(NAMESPACE, &[&psql[..], &form[..]].concat())
    }

    /// Looks again and again until it is so.
    pub fn until(&self, limit: Duration, what: &str, mut is_so: impl FnMut() -> Outcome<bool>) -> Outcome {
        let deadline = Instant::now() + limit;
        while !is_so()? {
            if Instant::now() > deadline {
                let state = self.kubectl(
                    NAMESPACE,
                    &["get", "pods,deployments,streams,consumergroups", "--output=wide"],
                )?;
                return Err(format!("within {limit:?} it did not come to this: {what}\n{state}").into());
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        Ok(())
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        if let Err(error) = self.down() {
            eprintln!("the demo was not removed: {error}");
        }
    }
}

fn run(command: &mut Command) -> Outcome<String> {
    let output = command.output()?;
    if output.status.success() {
        Ok(String::from_utf8(output.stdout)?.trim().to_owned())
    } else {
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        Err(format!("{command:?}: {}\n{words}", output.status).into())
    }
}
