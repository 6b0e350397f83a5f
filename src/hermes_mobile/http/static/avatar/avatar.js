"use strict";
(() => {
  // src/avatar/state.ts
  var STATES = {
    idle: "Hermes is idle",
    thinking: "Hermes is thinking",
    speaking: "Hermes is speaking"
  };
  function stateFrom(name) {
    const wanted = typeof name === "string" ? name.trim().toLowerCase() : "";
    return wanted === "thinking" || wanted === "speaking" ? wanted : "idle";
  }
  function inWords(state) {
    return STATES[state];
  }
  function stateInMessage(data) {
    let message = data;
    if (typeof data === "string") {
      if (!data.trimStart().startsWith("{")) return stateFrom(data);
      try {
        message = JSON.parse(data);
      } catch {
        return null;
      }
    }
    if (typeof message !== "object" || message === null) return null;
    if (!("type" in message) || message.type !== "hermes-avatar") return null;
    return stateFrom("state" in message ? message.state : void 0);
  }
  function fragment(hash) {
    const text = hash.replace(/^#/, "");
    const fields = new URLSearchParams(text);
    const transparent = ["", "1", "true"].includes(fields.get("transparent") ?? "0");
    const named = fields.get("state");
    if (named !== null) return { state: stateFrom(named), transparent };
    const [first = ""] = text.split("&");
    const bare = first !== "" && !first.includes("=") && first !== "transparent";
    return { state: bare ? stateFrom(first) : null, transparent };
  }

  // src/avatar/avatar.ts
  var figure = document.querySelector("#figure");
  var current = "idle";
  function show(state) {
    current = state;
    document.documentElement.dataset["state"] = state;
    figure?.setAttribute("aria-label", inWords(state));
  }
  function showFragment() {
    const { state, transparent } = fragment(location.hash);
    document.documentElement.toggleAttribute("data-transparent", transparent);
    if (state !== null) show(state);
  }
  function heard(event) {
    const state = event instanceof MessageEvent ? stateInMessage(event.data) : null;
    if (state !== null) show(state);
  }
  window.hermesAvatar = {
    setState: (name) => show(stateFrom(name)),
    get state() {
      return current;
    }
  };
  window.addEventListener("message", heard);
  document.addEventListener("message", heard);
  window.addEventListener("hashchange", showFragment);
  show("idle");
  showFragment();
})();
