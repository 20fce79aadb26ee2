"use strict";
// The page works without this: it adds buttons. The token stays in its field.
(() => {
  const byId = (id) => document.getElementById(id);
  const says = (text, bad) => { byId("says").textContent = text; byId("says").className = bad ? "bad" : ""; };
  const reveal = () => document.querySelectorAll("[data-js]").forEach((e) => { e.hidden = false; });
  let asked = 0; // how often the page was looked at
  let filling = false; // somebody fills in a form, which a look would empty

  // look replaces what the page shows by what it would show now. The browser sends what it has
  // read the page with, if that takes a password.
  async function look() {
    const mine = ++asked;
    try {
      const reply = await fetch(location.href);
      const now = new DOMParser().parseFromString(await reply.text(), "text/html");
      if (!reply.ok || !now.getElementById("state")) throw new Error(reply.status + " " + reply.statusText);
      if (mine !== asked) return; // another answer comes
      for (const part of ["main", "state"]) byId(part).replaceWith(now.getElementById(part));
      document.title = now.title;
      if (byId("says").textContent.startsWith("Not up to date")) says("");
      filling = false;
      reveal();
    } catch (e) {
      says("Not up to date: " + e.message, true);
    }
  }

  // change makes a call of the API, if that is confirmed, and shows what came of it.
  async function change(what, method, path, body) {
    if (!confirm(what + "?")) return;
    try {
      const headers = body ? { "Content-Type": "application/json" } : {};
      if (byId("token").value) headers.Authorization = "Bearer " + byId("token").value;
      const reply = await fetch(path, { method, body, headers });
      const answer = await reply.json().catch(() => ({}));
      if (!reply.ok) throw new Error(answer.detail || reply.status + " " + reply.statusText);
      const allowed = answer.still_allowed ? "Still allowed: " + answer.still_allowed.join(", ") + "." : "";
      says([what + ".", answer.hint, allowed].filter(Boolean).join(" "));
    } catch (e) {
      says(what + ": not done. " + e.message, true);
      return;
    }
    await look();
  }

  async function show(url) {
    history.pushState(null, "", url);
    await look();
    byId("explain").scrollIntoView();
  }

  document.addEventListener("click", (e) => {
    const button = e.target.closest("button[data-call]");
    if (button) {
      change(button.dataset.ask, ...button.dataset.call.split(" "), button.dataset.body);
    }
    const link = e.target.closest("a[href^='/?key=']");
    if (link && !e.ctrlKey && !e.metaKey && !e.shiftKey) {
      e.preventDefault();
      show(link.href);
    }
  });
  document.addEventListener("input", (e) => { filling = filling || byId("main").contains(e.target); });
  document.addEventListener("submit", (e) => {
    e.preventDefault();
    const given = new FormData(e.target);
    if (e.target.id === "ask") {
      show("/?" + new URLSearchParams(given));
      return;
    }
    if (e.target.id !== "rule") return;
    const body = { for: given.get("for") };
    for (const name of ["mode", "rate"]) if (given.get(name)) body[name] = given.get(name);
    if (given.get("burst")) body.burst = Number(given.get("burst"));
    const rule = given.get("rule");
    change("Change " + rule + " for " + body.for, "PATCH", "/v1/rules/" + encodeURIComponent(rule), JSON.stringify(body));
  });
  addEventListener("popstate", look);
  setInterval(() => { if (byId("often").checked && !filling && !byId("main").contains(document.activeElement)) look(); }, 5000);
  reveal();
})();
