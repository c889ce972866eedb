//! A scripted model on loopback: it speaks the streaming APIs by which coding agents reach their models, and has the
//! agent do what a test wrote down.
//!
//! A script belongs to a text that occurs in a prompt, so that a test needs no directives in what `cf` writes: the
//! newest prompt that contains the text of a script is answered by it. Where in its script a conversation stands
//! follows from the results that the agent has sent since that prompt; the server keeps no state of a conversation, and
//! any number of agents, sessions and repeated requests can be served at once. It listens on 127.0.0.1 alone.

use std::io::{BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};

use crate::github::{Received, read_request};

mod reply;
mod request;

use reply::Reply;
use request::{Api, Conversation};

/// One thing that the model does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Says something.
    Say(&'static str),
    /// Calls the agent's own shell with a command, and goes on when its result comes.
    Run(&'static str),
    /// Answers with this HTTP status, every time.
    Fail(u16),
    /// Says nothing more until the agent goes away.
    Hang,
}

/// A model that does as it is told. It stops when it is dropped.
pub struct ScriptedModel {
    address: SocketAddr,
    told: Arc<Told>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Told {
    scripts: Mutex<Vec<(String, Vec<Step>)>>,
    prompts: Mutex<Vec<String>>,
    hanging: Mutex<usize>,
    stop: AtomicBool,
}

impl ScriptedModel {
    /// Starts one without scripts, on a free port.
    ///
    /// # Panics
    ///
    /// There is no free port.
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let address = listener
            .local_addr()
            .expect("a bound socket has an address");
        let told = Arc::new(Told::default());
        let thread = std::thread::spawn({
            let told = Arc::clone(&told);
            move || {
                for stream in listener.incoming() {
                    if told.stop.load(Ordering::SeqCst) {
                        return;
                    }
                    if let Ok(stream) = stream {
                        let told = Arc::clone(&told);
                        std::thread::spawn(move || serve(stream, &told));
                    }
                }
            }
        });
        Self {
            address,
            told,
            thread: Some(thread),
        }
    }

    /// Where it listens, without a path.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Answers prompts that contain `text` by `steps`. Of several that fit, the last one told.
    pub fn when(&self, text: &str, steps: impl Into<Vec<Step>>) {
        lock(&self.told.scripts).push((text.to_owned(), steps.into()));
    }

    /// The prompts that were answered by a script, one for each request, oldest first.
    pub fn prompts(&self) -> Vec<String> {
        lock(&self.told.prompts).clone()
    }

    /// How many agents wait for an answer that does not come.
    pub fn hanging(&self) -> usize {
        *lock(&self.told.hanging)
    }
}

impl Drop for ScriptedModel {
    fn drop(&mut self) {
        self.told.stop.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    // A test that failed while it held the lock has its own message.
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Answers one request; its connection ends with the reply.
fn serve(stream: TcpStream, told: &Told) {
    let _ = stream.set_read_timeout(Some(Duration::from_mins(1)));
    let Ok(out) = stream.try_clone() else { return };
    let Some(request) = read_request(&mut BufReader::new(stream)) else {
        return;
    };
    // What an agent that went away does not read is nobody's loss.
    let _ = answer(out, &request, told);
}

fn answer(mut out: TcpStream, request: &Received, told: &Told) -> std::io::Result<()> {
    let path = request.path.split('?').next().unwrap_or_default();
    let body: Value = serde_json::from_str(&request.body).unwrap_or_default();
    let Some(api) = Api::of(&request.method, path) else {
        let body = json!({ "error": { "message": format!("no such path: {path}") } });
        return whole(
            &mut out,
            if path.ends_with("/models") { 200 } else { 404 },
            &body,
        );
    };
    let conversation = Conversation::read(api, &body);
    let turn = turn(&conversation, told);
    let mut reply = Reply::new(api, &body);
    let mut begun = false;
    for step in turn {
        if let Step::Fail(status) = step {
            return whole(&mut out, status, &api.error("scripted failure"));
        }
        if !begun {
            out.write_all(
                b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n",
            )?;
            out.write_all(reply.start().as_bytes())?;
            begun = true;
        }
        match step {
            Step::Say(text) => out.write_all(reply.text(text).as_bytes())?,
            Step::Run(command) => match conversation.shell_call(command) {
                Some((tool, arguments)) => {
                    out.write_all(reply.call(&tool, &arguments).as_bytes())?;
                }
                None => out.write_all(reply.text("I have no shell.").as_bytes())?,
            },
            Step::Hang | Step::Fail(_) => return hang(&out, told),
        }
    }
    out.write_all(reply.end().as_bytes())
}

/// The steps up to and with the next command, after as many commands as have results.
fn turn(conversation: &Conversation, told: &Told) -> Vec<Step> {
    if !conversation.has_tools() {
        // Titles and summaries, which some agents ask for beside their work.
        return vec![Step::Say("A title")];
    }
    let scripts = lock(&told.scripts);
    let found = conversation.newest_prompt(|prompt| {
        let script = scripts.iter().rev().find(|(text, _)| prompt.contains(text));
        script.map(|(_, steps)| steps.clone())
    });
    let Some((prompt, results, steps)) = found else {
        return vec![Step::Say("Nobody told me what to do.")];
    };
    lock(&told.prompts).push(prompt.to_owned());
    let mut turns = steps.split_inclusive(|step| matches!(step, Step::Run(_)));
    match turns.nth(results) {
        Some(turn) => turn.to_vec(),
        None => vec![Step::Say("Done.")],
    }
}

fn whole(out: &mut TcpStream, status: u16, body: &Value) -> std::io::Result<()> {
    let body = body.to_string();
    write!(
        out,
        "HTTP/1.1 {status} -\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Waits until the agent has closed the connection.
fn hang(out: &TcpStream, told: &Told) -> std::io::Result<()> {
    *lock(&told.hanging) += 1;
    out.set_read_timeout(Some(Duration::from_millis(50)))?;
    while !told.stop.load(Ordering::SeqCst) {
        match out.peek(&mut [0]) {
            Ok(0) => break,
            Err(error)
                if !matches!(
                    error.kind(),
                    std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
                ) =>
            {
                break;
            }
            Ok(_) => std::thread::sleep(Duration::from_millis(50)),
            Err(_) => {}
        }
    }
    *lock(&told.hanging) -= 1;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    fn ask(model: &ScriptedModel, messages: &Value) -> String {
        let tools = json!([{ "type": "function", "function": {
            "name": "bash", "parameters": { "properties": { "command": { "type": "string" } } },
        } }]);
        let body = json!({ "model": "m", "messages": messages, "tools": tools }).to_string();
        let mut stream = TcpStream::connect(model.address).unwrap();
        write!(
            stream,
            "POST /v1/chat/completions HTTP/1.1\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        reply
    }

    #[test]
    fn its_place_in_a_script_follows_from_the_results_since_the_prompt() {
        let model = ScriptedModel::start();
        model.when(
            "shed",
            [
                Step::Say("I paint."),
                Step::Run("paint"),
                Step::Say("It is red."),
            ],
        );
        model.when("blue", [Step::Fail(500)]);
        let user = |text: &str| json!({ "role": "user", "content": text });
        let result = json!({ "role": "tool", "content": "ok" });
        let first = ask(&model, &json!([user("Paint the shed")]));
        assert!(
            first.contains("I paint.") && first.contains(r#"{\"command\":\"paint\"}"#),
            "{first}"
        );
        let second = ask(
            &model,
            &json!([user("Paint the shed"), result, user("a reminder")]),
        );
        assert!(
            second.contains("It is red.") && !second.contains("I paint."),
            "{second}"
        );
        let other = ask(
            &model,
            &json!([user("Paint the shed"), result, user("No, blue")]),
        );
        assert!(other.starts_with("HTTP/1.1 500"), "{other}");
        assert!(ask(&model, &json!([user("Hello")])).contains("Nobody told me"));
        assert_eq!(
            model.prompts(),
            ["Paint the shed", "Paint the shed", "No, blue"]
        );
    }
}
