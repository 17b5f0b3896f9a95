// Drives the dashboard of a gateway in Chromium. Arguments: the folder of the packages, the name of a scenario, and its
// settings as JSON. Every console error, page error and report of the content security policy fails a scenario.

import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { join } from "node:path";

const [packages, scenario, settingsText] = process.argv.slice(2);
const settings = JSON.parse(settingsText);
const { chromium } = createRequire(join(packages, "package.json"))("playwright-core");

const BROWSER = "/usr/bin/chromium-headless-shell";
const NARROW = { width: 390, height: 844 };
const WIDE = { width: 1280, height: 860 };
const SCREENS = ["", "tools", "calls", "approvals", "clients", "policy", "logins", "usage"];
// Characters that reorder or hide text, or that a terminal acts on.
const INVISIBLE = /[\u0000-\u0008\u000b-\u001f\u007f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]/;

const problems = [];
let allowed = [];

/** Fails the scenario at what a page reports, except for statuses that the scenario expects. */
function watch(page) {
  page.on("console", (message) => {
    const text = message.text();
    const isExpected = allowed.some((status) => text.includes(`status of ${status}`));
    if (["error", "warning"].includes(message.type()) && !isExpected) problems.push(`console: ${text}`);
  });
  page.on("pageerror", (error) => problems.push(`page error: ${error.message}`));
}

async function newContext(browser, options = {}) {
  const context = await browser.newContext({ viewport: WIDE, ...options });
  await context.addInitScript(() => {
    document.addEventListener("securitypolicyviolation", (event) => {
      console.error(`policy: ${event.violatedDirective} ${event.blockedURI}`);
    });
  });
  context.on("page", watch);
  return context;
}

/** A page of a signed-in browser. */
async function signIn(browser, link, options) {
  const context = await newContext(browser, options);
  const page = await context.newPage();
  await page.goto(link);
  if (options?.javaScriptEnabled === false) await page.getByRole("button", { name: "Sign in" }).click();
  await page.waitForURL(`${settings.origin}/ui/`);
  return page;
}

const open = async (page, path) => {
  const response = await page.goto(`${settings.origin}/ui/${path}`);
  assert.equal(response.status(), 200, path);
};

/** What holds for every page. */
async function checkPage(page, path) {
  assert.equal(await page.evaluate(() => globalThis.pwned), undefined, `${path}: a script ran`);
  assert.equal(await page.getByRole("heading", { level: 1 }).count(), 1, `${path}: one main heading`);
  assert.equal(await page.getByRole("main").count(), 1, `${path}: one main landmark`);
  assert.equal(await page.getByRole("navigation", { name: "Main" }).count(), 1, `${path}: the navigation`);
  const text = await page.evaluate(() => document.body.textContent);
  const found = INVISIBLE.exec(text);
  const code = found?.[0].codePointAt(0).toString(16);
  assert.equal(found, null, `${path}: U+${code} near ${JSON.stringify(text.slice(Math.max(0, found?.index - 40), found?.index + 40))}`);
  const faults = await page.evaluate(() => {
    const faults = [];
    for (const input of document.querySelectorAll("input:not([type=hidden]), select, textarea")) {
      if (!input.labels?.length && !input.getAttribute("aria-label")) faults.push(`no label: ${input.outerHTML.slice(0, 100)}`);
    }
    for (const button of document.querySelectorAll("button, a")) {
      if (!button.textContent.trim() && !button.getAttribute("aria-label")) faults.push(`no name: ${button.outerHTML.slice(0, 100)}`);
    }
    const ids = [...document.querySelectorAll("[id]")].map((it) => it.id);
    faults.push(...ids.filter((id, at) => ids.indexOf(id) !== at).map((id) => `two of id ${id}`));
    for (const badge of document.querySelectorAll(".badge")) {
      if (!badge.textContent.trim().match(/\w/)) faults.push("a state without a word");
    }
    if (document.documentElement.scrollWidth > document.documentElement.clientWidth + 1) {
      faults.push(`wider than the window: ${document.documentElement.scrollWidth}`);
    }
    return faults;
  });
  assert.deepEqual(faults, [], path);
}

/** A state by its word, beside its symbol. */
const badge = (page, word) => page.locator("main .badge", { hasText: new RegExp(`^\\W*${word}$`) }).first();

/** A modern MCP request, as a client sends it. */
async function callTool(name, args) {
  const params = { name, arguments: args, _meta: {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
  } };
  const response = await fetch(`${settings.origin}/mcp`, {
    method: "POST",
    headers: {
      "Content-Type": "application/json", Accept: "application/json, text/event-stream",
      "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": name,
    },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params }),
  });
  return response.text();
}

/** A client of the older protocol, with a session. */
async function openSession() {
  const response = await fetch(`${settings.origin}/mcp`, {
    method: "POST",
    headers: { "Content-Type": "application/json", Accept: "application/json, text/event-stream" },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "initialize", params: {
      protocolVersion: "2025-06-18", capabilities: { elicitation: {}, roots: {} },
      clientInfo: { name: "editor", version: "2.4.1" },
    } }),
  });
  assert.equal(response.status, 200);
}

const scenarios = {
  /** Every screen, in light, dark and narrow, with hostile texts everywhere. */
  async screens(browser) {
    const page = await signIn(browser, settings.link);
    await callTool("mcp__hostile__echo", { text: "free <img src=x onerror=pwned=1>\u202e" });
    const paths = [...SCREENS, "server?name=hostile", "server?name=tainted", "server?name=many", "server?name=many&page=3", "server?name=broken",
      "tools?q=tool_77", "policy?tool=mcp__many__tool_1&arguments=%7B%7D&rules=deny+mcp__hostile", "usage?period=30d"];
    for (const name of ["hostile", "tainted"]) {
      await open(page, `server?name=${name}`);
      const links = await page.locator("a[href^='/ui/tool?']").evaluateAll((all) => all.map((it) => it.getAttribute("href")));
      assert.ok(links.length >= 4, `${links.length} tools`);
      // The last ones have the hostile names, and the first ones the usual forms.
      paths.push(...[...links.slice(0, 3), ...links.slice(-4)].map((it) => it.slice("/ui/".length)));
    }
    await open(page, "calls");
    const call = await page.locator("a[href^='/ui/call?']").first().getAttribute("href");
    paths.push(call.slice("/ui/".length));
    for (const [name, viewport, colorScheme] of [["light", WIDE, "light"], ["dark", WIDE, "dark"], ["narrow", NARROW, "light"]]) {
      await page.setViewportSize(viewport);
      await page.emulateMedia({ colorScheme });
      for (const path of paths) {
        await open(page, path);
        await checkPage(page, `${name} ${path}`);
      }
      const [dark, back] = await page.evaluate(() => [matchMedia("(prefers-color-scheme: dark)").matches, getComputedStyle(document.body).backgroundColor]);
      const brightness = back.match(/[\d.]+/g).slice(0, 3).reduce((sum, it) => sum + Number(it), 0);
      assert.equal(brightness < 200, dark, `${name}: ${back}`);
    }
    await open(page, "");
    await page.getByRole("cell", { name: "no-such-program" }).first().waitFor();
  },

  /** A link works once; without a session every page is the login page. */
  async login(browser) {
    const page = await signIn(browser, settings.link);
    await page.getByRole("heading", { name: "Overview" }).waitFor();
    allowed = [401, 403];
    const other = await newContext(browser);
    const second = await other.newPage();
    await second.goto(settings.link);
    await second.getByRole("alert").waitFor();
    assert.match(await second.getByRole("alert").textContent(), /was used or has expired/);
    for (const path of SCREENS) {
      const response = await second.goto(`${settings.origin}/ui/${path}`);
      assert.equal(response.status(), 401, path);
      await second.getByRole("heading", { name: "Sign in" }).waitFor();
      assert.equal(await second.getByText("scripted").count(), 0);
    }
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByRole("heading", { name: "Sign in" }).waitFor();
    assert.equal((await page.goto(`${settings.origin}/ui/`)).status(), 401);
  },

  /** A waiting call appears without a reload, and goes on when it is allowed here. */
  async approval(browser) {
    const page = await signIn(browser, settings.link);
    await open(page, "approvals");
    await page.getByText("No call waits.").waitFor();
    const waiting = callTool("mcp__hostile__echo", { text: "decide me" });
    const card = page.getByRole("article");
    await card.waitFor();
    assert.match(await card.textContent(), /decide me/);
    await page.getByRole("link", { name: "Approvals 1 waiting" }).waitFor();
    assert.equal(await page.getByText("1 call waits for approval").getAttribute("role"), "status");
    // What is typed stays when the page is updated: another call arrives meanwhile.
    await card.getByRole("textbox", { name: "Reason for a denial" }).fill("not now");
    const second = callTool("mcp__hostile__echo", { text: "the second" });
    await page.getByRole("article").nth(1).waitFor();
    assert.equal(await card.first().getByRole("textbox").inputValue(), "not now");
    await card.first().getByRole("button", { name: "Allow once" }).click();
    await page.getByText("The call was allowed.").waitFor();
    assert.match(await waiting, /decide me/);
    await page.getByRole("article").getByRole("textbox").fill("because of the test");
    await page.getByRole("article").getByRole("button", { name: "Deny" }).click();
    await page.getByText("The call was denied.").waitFor();
    assert.match(await second, /the gateway's operator says: because of the test/);
    await open(page, "calls?outcome=denied");
    await page.getByRole("row", { name: /because of the test/ }).waitFor();
  },

  /** A call from the form passes the rules: allowed, asked about in the page, refused. */
  async call(browser) {
    const page = await signIn(browser, settings.link);
    const fill = async (text) => {
      await open(page, "tool?name=mcp__hostile__echo");
      await page.getByLabel("text").fill(text);
      await page.getByRole("button", { name: "Call", exact: true }).click();
      await page.waitForURL(/\/ui\/run/);
    };
    await fill("free <img src=x onerror=globalThis.pwned=1>\u202e\u001b[31m</pre><script>globalThis.pwned=1</script>");
    await page.getByText("free <img").first().waitFor();
    await checkPage(page, "the result");
    await badge(page, "ok").waitFor();
    await fill("please ask");
    await page.getByRole("article").getByRole("button", { name: "Allow once" }).click();
    await badge(page, "ok").waitFor();
    await fill("forbidden fruit");
    await badge(page, "denied").waitFor();
    await page.getByText("the deny rule").waitFor();
    // As JSON: what is wrong is said, and what was entered stays.
    allowed = [422];
    await open(page, "tool?name=mcp__hostile__echo&form=json");
    await page.getByRole("textbox", { name: "Arguments" }).fill("{");
    await page.getByRole("button", { name: "Call", exact: true }).click();
    await page.getByRole("alert").getByText("not JSON").waitFor();
    assert.equal(await page.getByRole("textbox", { name: "Arguments" }).inputValue(), "{");
    await page.getByRole("textbox", { name: "Arguments" }).fill('{"text": "free json"}');
    await page.getByRole("button", { name: "Call", exact: true }).click();
    await page.waitForURL(/\/ui\/run/);
    await badge(page, "ok").waitFor();
    const command = await page.locator("#command-line").textContent();
    assert.equal(command, `swb call mcp__hostile__echo '{"text":"free json"}'`);
    await page.getByRole("button", { name: "Copy" }).waitFor();
  },

  /** All of it without a pointer. */
  async keyboard(browser) {
    const page = await signIn(browser, settings.link);
    await open(page, "");
    const focused = () => page.evaluate(() => {
      const it = document.activeElement;
      const style = getComputedStyle(it);
      return { text: it.textContent.trim(), outline: style.outlineStyle, width: style.outlineWidth };
    });
    await page.keyboard.press("Tab");
    assert.equal((await focused()).text, "Skip to content");
    await page.keyboard.press("Enter");
    assert.equal(await page.evaluate(() => document.activeElement.id), "main");
    await open(page, "");
    const path = [];
    for (let step = 0; step < 4; step += 1) {
      await page.keyboard.press("Tab");
      const it = await focused();
      path.push(it.text);
      assert.equal(it.outline, "solid", `${it.text} shows its focus`);
    }
    assert.deepEqual(path, ["Skip to content", "Overview", "Tools", "Calls"]);
    await page.keyboard.press("Shift+Tab");
    await page.keyboard.press("Enter");
    await page.waitForURL(/\/ui\/tools/);
    await page.keyboard.press("/");
    await page.keyboard.type("echo");
    await page.keyboard.press("Enter");
    await page.waitForURL(/q=echo/);
    await page.getByRole("link", { name: "echo", exact: true }).first().focus();
    await page.keyboard.press("Enter");
    await page.waitForURL(/\/ui\/tool\?/);
    await page.getByLabel("text").focus();
    await page.keyboard.type("free of the mouse");
    await page.keyboard.press("Tab");
    assert.equal((await focused()).text, "Call");
    await page.keyboard.press("Enter");
    await page.waitForURL(/\/ui\/run/);
    await page.getByText("free of the mouse").first().waitFor();
    // Live updates keep the focus.
    await open(page, "calls");
    const first = page.locator("tbody a").first();
    await first.focus();
    const href = await first.getAttribute("href");
    await callTool("mcp__hostile__echo", { text: "free again" });
    await page.locator("tbody tr").nth(1).locator(`a[href="${href}"]`).waitFor();
    assert.equal(await page.evaluate(() => document.activeElement.getAttribute("href")), href);
  },

  /** Pages of other origins on this machine cannot use the session. */
  async otherOrigin(browser) {
    const page = await signIn(browser, settings.link);
    await open(page, "server?name=hostile");
    const token = await page.locator("input[name=page-token]").first().getAttribute("value");
    const evil = createServer((_, response) => {
      response.setHeader("Content-Type", "text/html");
      response.end(`<form method="post" action="${settings.origin}/ui/server/switch">
        <input name="page-token" value="${token}"><input name="name" value="hostile"><input name="to" value="disabled">
        <button>Go</button></form>`);
    }).listen(0, "127.0.0.1");
    await once(evil, "listening");
    allowed = [401, 403];
    const other = await page.context().newPage();
    await other.goto(`http://127.0.0.1:${evil.address().port}/`);
    const [answer] = await Promise.all([
      other.waitForResponse((it) => it.url().endsWith("/ui/server/switch")),
      other.getByRole("button", { name: "Go" }).click(),
    ]);
    assert.equal(answer.status(), 403);
    await other.goto(`http://127.0.0.1:${evil.address().port}/`);
    const read = await other.evaluate(async (origin) => {
      try {
        return (await (await fetch(`${origin}/ui/`, { credentials: "include" })).text()).length;
      } catch (error) {
        return error.name;
      }
    }, settings.origin).catch((error) => error.name);
    assert.equal(read, "TypeError");
    // The browser says that the fetch was blocked.
    problems.splice(0, problems.length, ...problems.filter((it) => !it.includes("CORS policy") && !it.includes("ERR_FAILED")));
    evil.close();
    await open(page, "server?name=hostile");
    await page.getByRole("button", { name: "Disable" }).waitFor();
  },

  /** State and log change while the page is open; a server is disabled and enabled. */
  async server(browser) {
    const page = await signIn(browser, settings.link);
    await open(page, "server?name=hostile");
    const log = page.getByLabel("The last lines of the log");
    const lines = async () => (await log.textContent()).split("\n").length;
    const before = await lines();
    await page.getByRole("button", { name: "Reconnect" }).click();
    await page.getByText("hostile is reconnecting.").waitFor();
    await page.waitForFunction((count) => document.querySelector(".log").textContent.split("\n").length > count, before);
    await badge(page, "connected").waitFor();
    await page.getByRole("button", { name: "Disable" }).click();
    await page.getByText("hostile is disabled.").waitFor();
    await page.getByText("not running").waitFor();
    await page.getByRole("button", { name: "Enable" }).click();
    await badge(page, "connected").waitFor();
    await page.waitForURL((it) => !it.searchParams.has("notice"));
  },

  /** Pages can be read, and forms sent, without script. */
  async withoutScript(browser) {
    const page = await signIn(browser, settings.link, { javaScriptEnabled: false });
    for (const path of SCREENS) await open(page, path);
    await open(page, "server?name=hostile");
    assert.ok(await page.getByText("connected").count() > 0);
    await open(page, "tool?name=mcp__hostile__echo");
    await page.getByLabel("text").fill("free of script");
    await page.getByRole("button", { name: "Call", exact: true }).click();
    await page.waitForURL(/\/ui\/run/);
    await page.reload();
    await page.getByText("free of script").first().waitFor();
  },

  /** Pictures for the documentation. */
  async pictures(browser) {
    const page = await signIn(browser, settings.link);
    await openSession();
    // The curve of the pictures needs some time.
    const rounds = settings.folder ? 40 : 12;
    for (let round = 0; round < rounds; round += 1) {
      for (let more = 0; settings.folder && more < Math.abs((round * 7) % 11 - 5); more += 1) {
        await callTool("mcp__time__get_current_time", { timezone: "UTC" });
      }
      if (settings.folder) await page.waitForTimeout(1500);
      await callTool("mcp__time__get_current_time", { timezone: "Europe/Paris" });
      if (round % 3 === 0) await callTool("mcp__everything__echo", { message: "hello" });
      if (round % 5 === 4) await callTool("mcp__time__get_current_time", { timezone: "Nowhere" });
    }
    callTool("mcp__everything__get-sum", { a: 2, b: 40 }).catch(() => {});
    await open(page, "approvals");
    await page.getByRole("article").waitFor();
    const shots = [
      ["overview", "", {}], ["overview-dark", "", { colorScheme: "dark" }], ["overview-narrow", "", { viewport: NARROW }],
      ["server", "server?name=everything", {}], ["tool", "tool?name=mcp__everything__get-sum", {}],
      ["calls", "calls", {}], ["approvals", "approvals", {}], ["clients", "clients", {}],
      ["policy", "policy?tool=mcp__time__get_current_time&rules=deny+mcp__time", {}], ["logins", "logins", {}],
      ["usage", "usage", {}],
    ];
    for (const [name, path, { viewport = { width: 1200, height: 760 }, colorScheme = "light" }] of shots) {
      await page.setViewportSize(viewport);
      await page.emulateMedia({ colorScheme });
      await open(page, path);
      // The curve needs some samples.
      if (name.startsWith("overview")) await page.locator(".curve polyline").waitFor({ state: "attached" });
      await page.evaluate(() => document.fonts.ready);
      await checkPage(page, name);
      if (name === "clients") await page.getByRole("row", { name: /editor 2.4.1/ }).waitFor();
      if (settings.folder) {
        await page.screenshot({ path: join(settings.folder, `dashboard-${name}.png`), animations: "disabled" });
      }
    }
    await open(page, "approvals");
    await page.getByRole("button", { name: "Deny" }).click();
    await page.getByText("The call was denied.").waitFor();
  },
};

const browser = await chromium.launch({
  executablePath: BROWSER,
  args: ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});
try {
  await scenarios[scenario](browser);
  assert.deepEqual(problems, []);
  console.log("done");
} catch (error) {
  console.error(error.stack, problems);
  process.exitCode = 1;
} finally {
  await browser.close();
}
