"use strict";
// The page works without this: it adds buttons. The token stays in its field.
(() => {
  const byId = (id) => document.getElementById(id);
  const says = (text, bad) => { byId("says").textContent = text; byId("says").className = bad ? "bad" : ""; };
  const reveal = () => document.querySelectorAll("[data-js]").forEach((e) => { e.hidden = false; });
  const headers = () => (byId("token").value ? { Authorization: "Bearer " + byId("token").value } : {});

  // look replaces what the page shows by what it would show now.
  async function look() {
    const reply = await fetch(location.href, { headers: headers() });
    if (!reply.ok) throw new Error("the page: " + reply.status + " " + reply.statusText);
    const now = new DOMParser().parseFromString(await reply.text(), "text/html");
    document.querySelector("main").replaceWith(now.querySelector("main"));
    byId("as-of").replaceWith(now.getElementById("as-of"));
    document.title = now.title;
    reveal();
  }

  // change makes a call of the API and shows what came of it.
  async function change(done, method, path, body) {
    try {
      const reply = await fetch(path, { method, body, headers: { ...headers(), ...(body ? { "Content-Type": "application/json" } : {}) } });
      if (!reply.ok) {
        const problem = await reply.json().catch(() => ({}));
        throw new Error(problem.detail || reply.status + " " + reply.statusText);
      }
      says(done + ".");
      await look();
    } catch (e) {
      says(done + ": not done. " + e.message, true);
    }
  }

  async function show(url) {
    history.pushState(null, "", url);
    await look().catch((e) => says(e.message, true));
    byId("explain").scrollIntoView();
  }

  document.addEventListener("click", (e) => {
    const button = e.target.closest("button[data-call]");
    if (button && confirm(button.dataset.ask + "?")) {
      change(button.dataset.ask, ...button.dataset.call.split(" "), button.dataset.body);
    }
    const link = e.target.closest("a[href^='/?key=']");
    if (link && !e.ctrlKey && !e.metaKey && !e.shiftKey) {
      e.preventDefault();
      show(link.href);
    }
  });
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
  addEventListener("popstate", () => look().catch((e) => says(e.message, true)));
  setInterval(() => { if (byId("often").checked) look().catch((e) => says(e.message, true)); }, 5000);
  reveal();
})();
