//! The pages of the benchmark, served on this machine.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::failure::Failure;

/// How many rows the big page has.
pub const ROWS: usize = 2000;

/// A running site.
pub struct Site {
    pub address: SocketAddr,
    /// The requests so far: path and body.
    seen: Arc<Mutex<Vec<(String, String)>>>,
}

impl Site {
    pub fn start() -> Result<Site, Failure> {
        let fail = |error: std::io::Error| super::mcp_client::failed(error);
        let listener = TcpListener::bind("127.0.0.1:0").map_err(fail)?;
        let address = listener.local_addr().map_err(fail)?;
        let seen: Arc<Mutex<Vec<(String, String)>>> = Arc::default();
        let log = seen.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let log = log.clone();
                thread::spawn(move || serve(stream, address.port(), &log));
            }
        });
        Ok(Site { address, seen })
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Whether a request with this path, and this text in its URL or body, has come since the last call.
    pub fn take(&self, path: &str, text: &str) -> bool {
        let mut seen = self.seen.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let found = seen
            .iter()
            .any(|(at, body)| at.starts_with(path) && (at.contains(text) || body.contains(text)));
        seen.clear();
        found
    }
}

fn serve(stream: TcpStream, port: u16, log: &Mutex<Vec<(String, String)>>) {
    let Ok(mut writer) = stream.try_clone() else { return };
    let mut reader = BufReader::new(stream);
    loop {
        let mut head = Vec::new();
        loop {
            let mut line = String::new();
            match reader.read_line(&mut line) {
                Ok(0) | Err(_) => return,
                Ok(_) if line.trim().is_empty() => break,
                Ok(_) => head.push(line.trim().to_owned()),
            }
        }
        let path = head.first().and_then(|it| it.split(' ').nth(1)).unwrap_or("/").to_owned();
        let length = head.iter().find_map(|it| {
            it.to_ascii_lowercase().strip_prefix("content-length:")?.trim().parse().ok()
        });
        let mut body = vec![0; length.unwrap_or(0)];
        if reader.read_exact(&mut body).is_err() {
            return;
        }
        let body = String::from_utf8_lossy(&body).into_owned();
        log.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((path.clone(), body));
        let plain = path.split('?').next().unwrap_or_default();
        let more = match plain {
            "/file" => "Content-Disposition: attachment; filename=\"report.csv\"\r\n",
            _ => "",
        };
        let page = page(plain).replace("{port}", &port.to_string());
        let kind =
            if plain == "/file" { "application/octet-stream" } else { "text/html; charset=utf-8" };
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n{more}Content-Length: {}\r\n\r\n",
            page.len()
        );
        if writer.write_all((head + &page).as_bytes()).is_err() {
            return;
        }
    }
}

/// A page by its path.
fn page(path: &str) -> String {
    let text = match path {
        "/small" => {
            "<title>Small</title><h1>Form</h1><label>Name <input id=n></label><label>Mail <input type=email></label><label>Notes <textarea></textarea></label><label>Size <select><option>S<option>M</select></label><label><input type=checkbox> Agree</label><button onclick=\"document.title='saved '+n.value\">Save</button><button>Cancel</button><a href=/small2>Help</a>"
        }
        "/small2" => "<title>Other</title><h1>Help</h1><a href=/small>Back to the form</a>",
        "/big" => return big(),
        "/signup" => {
            "<title>Sign up</title><form action=/welcome><label>Mail <input type=email required name=mail></label><label>Password <input type=password name=pw minlength=8 required></label><label>Plan <select name=plan><option>Free<option>Pro</select></label><label><input type=checkbox required> I agree</label><button>Create account</button></form>"
        }
        "/welcome" => "<title>Welcome</title><h1>Account created</h1>",
        "/page1" => "<title>Page 1</title><ul><li>item 1a<li>item 1b</ul><a href=/page2>Next</a>",
        "/page2" => "<title>Page 2</title><ul><li>item 2a<li>item 2b</ul><a href=/page3>Next</a>",
        "/page3" => "<title>Page 3</title><ul><li>item 3a<li>item 3b</ul>",
        "/upload" => {
            "<title>Upload</title><form action=/received method=post enctype=multipart/form-data><label>Report <input type=file name=report></label><button>Send</button></form>"
        }
        "/received" => "<title>Received</title>ok",
        "/downloads" => "<title>Files</title><a href=/file>Get report</a>",
        "/file" => "a,b\n1,2\n",
        "/confirm" => {
            "<title>List</title><li id=x>old entry <button onclick=\"if(confirm('Delete old entry?')){x.remove();fetch('/deleted')}\">Delete</button></li>"
        }
        "/popup" => {
            "<title>Shop</title><button onclick=\"window.open('/login','_blank','width=400,height=300')\">Sign in</button><p id=s>signed out</p><script>onmessage=e=>{s.textContent='signed in as '+e.data;fetch('/signed-in?'+e.data)}</script>"
        }
        "/login" => {
            "<title>Login</title><label>User <input id=u></label><button onclick=\"opener.postMessage(u.value,'*');window.close()\">Log in</button>"
        }
        "/frame" => {
            "<title>Checkout</title><p id=s>open</p><iframe title=Payment src='http://localhost:{port}/pay' width=400 height=200></iframe><script>onmessage=e=>{s.textContent=e.data;fetch('/paid?'+encodeURIComponent(e.data))}</script>"
        }
        "/pay" => {
            "<label>Card <input id=c></label><button onclick=\"parent.postMessage('paid '+c.value,'*')\">Pay</button>"
        }
        "/shadow" => {
            "<title>App</title><x-app></x-app><script>customElements.define('x-switch',class extends HTMLElement{connectedCallback(){const r=this.attachShadow({mode:'closed'});r.innerHTML='<button role=switch aria-checked=false aria-label=\"Dark mode\">o</button>';r.firstChild.onclick=()=>fetch('/dark')}});customElements.define('x-app',class extends HTMLElement{connectedCallback(){this.attachShadow({mode:'open'}).innerHTML='<h2>Settings</h2><x-switch></x-switch>'}});</script>"
        }
        "/endless" => {
            "<title>Feed</title><ul id=l></ul><script>let n=0;function more(){if(n>=90)return;for(let i=0;i<30;i++,n++){const li=document.createElement('li');li.style.height='60px';li.innerHTML='post '+n+' <button onclick=\"fetch(\\'/liked?'+n+'\\')\">Like '+n+'</button>';l.append(li)}}more();onscroll=()=>{if(scrollY+innerHeight>document.documentElement.scrollHeight-100)more()}</script>"
        }
        "/canvas" => {
            "<title>Chart</title><body style='margin:0'><canvas id=c width=600 height=400></canvas><script>const x=c.getContext('2d');x.fillStyle='#0a0';x.fillRect(420,260,60,60);c.onclick=e=>{const d=x.getImageData(e.offsetX,e.offsetY,1,1).data;if(d[1]>100)fetch('/hit')}</script>"
        }
        "/busy" => {
            "<title>Busy</title><button onclick='setTimeout(()=>{for(;;);})'>Compute</button>"
        }
        "/good" => "<title>Good</title><p>the answer is 42</p>",
        _ => "ok",
    };
    match path {
        "/file" => text.to_owned(),
        _ => format!("<!doctype html><html lang=en><meta charset=utf-8>{text}</html>"),
    }
}

fn big() -> String {
    let row = |number: usize| {
        format!(
            "<tr><td>{number}</td><td>Customer {number}</td><td>customer{number}@example.com</td><td>{} EUR</td><td><input type=checkbox aria-label='Select {number}'></td><td><button onclick=\"fetch('/edited?{number}')\">Edit {number}</button></td></tr>",
            number * 37 % 1000
        )
    };
    let rows: String = (0..ROWS).map(row).collect();
    format!(
        "<!doctype html><html lang=en><meta charset=utf-8><title>Big</title><h1>Customers</h1><input type=search aria-label=Filter><table><caption>All customers</caption>{rows}</table></html>"
    )
}
