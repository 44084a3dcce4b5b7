// The playground's page. Everything it shows comes over one stream from the service and is put into the page as text,
// never as markup. What it sends: a new contact, a message, a switch.
"use strict";

const MODELS = [
  ["normal", "Works", "Answers at once."],
  ["slow", "Slow", "Loses the race: the contact gets the holding line, the reply follows through ManyChat."],
  ["failing", "Fails", "Every call fails: the contact is handed over. After five failures in a row the service spares the model for 30 s."],
];
const ACCOUNTS = [
  ["none", "Works", "Accepts every call."],
  ["slow", "Slow", "Accepts every call after 3 s."],
  ["too_many_requests", "429", "Too many requests: the reply waits and is tried again."],
  ["server_error", "500", "A server error: the reply waits and is tried again."],
  ["timeout", "Silent", "Answers nothing for 10 s: the reply waits and is tried again."],
  ["unreachable", "Down", "Takes no connection: the reply waits and is tried again."],
  ["refused", "Refuses", "A final refusal: the reply is given up and the contact handed over."],
];
const IDEAS = ["How much is the foundation course?", "When does it run?", "I want to talk to a person", "I want a refund", "Can I get a discount?"];
// For a tenant that has tools.
const WISHES = ["Have you something to read about the foundation course?", "I'm interested", "I don't have time", "How do I pay?"];
const OUTCOMES = {
  answered_inline: ["In time", "good", "Answered in the response."],
  answered_scripted: ["Scripted", "good", "Answered with the tenant's opening, without the model."],
  deferred: ["Late", "warn", "Lost the race: holding line first, reply through ManyChat."],
  escalated_precheck: ["Handed over", "warn", "A guard handed over before the model was asked."],
  escalated_model: ["Handed over", "warn", "The model or a guardrail handed over."],
  media_fallback: ["Media", "warn", "The file could not be read."],
  error: ["Error", "bad", "The model call failed; the contact was handed over."],
};
const CHANNELS = { whatsapp: "WhatsApp", instagram: "Instagram", messenger: "Messenger", telegram: "Telegram" };
const SILENCE_MS = 25000;

const contacts = new Map();
let order = [];
let chosen = null;
let switches = { model: null, manychat: null };
let about = null;
let tools = null;
let source = null;
let heard = 0;
let follows = true;
const drafts = new Map();

const byId = (id) => document.getElementById(id);

function show(id, visible, text) {
  const place = byId(id);
  if (text !== undefined) place.textContent = text;
  place.hidden = !visible;
}

// --- Talking to the service ---------------------------------------------------------------------------------------

async function post(path, body) {
  let response;
  try {
    response = await fetch("/playground" + path, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body),
    });
  } catch {
    throw new Error("The service cannot be reached. Is it still running?");
  }
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(answer.error || answer.message || "The service answered " + response.status + ".");
  return answer;
}

function failed(error) {
  byId("failure-text").textContent = error.message;
  byId("failure").hidden = false;
}

function settled() {
  byId("failure").hidden = true;
}

function connect() {
  if (source) source.close();
  heard = Date.now();
  source = new EventSource("/playground/events");
  source.addEventListener("update", (event) => {
    heard = Date.now();
    connected(true);
    apply(JSON.parse(event.data));
  });
  source.addEventListener("alive", () => {
    heard = Date.now();
    connected(true);
  });
  source.onerror = () => connected(false);
}

function connected(yes) {
  const link = byId("link");
  link.dataset.state = yes ? "open" : "lost";
  byId("link-text").textContent = yes ? "Connected" : "Connection lost";
  byId("lost").hidden = yes;
}

// Why the service refuses the stream, which a stream itself does not tell; null when it does not, or does not answer.
async function refusal() {
  const stop = new AbortController();
  const patience = setTimeout(() => stop.abort(), SILENCE_MS);
  try {
    const response = await fetch("/playground/events", { signal: stop.signal });
    return response.status === 403 ? (await response.json()).error : null;
  } catch {
    return null;
  } finally {
    clearTimeout(patience);
    stop.abort();
  }
}

// A browser gives up on a stream that was refused, and does not notice one that fell silent. A page whose key is no
// longer good stays refused.
let mending = false;
setInterval(async () => {
  const closed = source.readyState === EventSource.CLOSED;
  const silent = Date.now() - heard > SILENCE_MS;
  if (mending || !(closed || silent)) return;
  mending = true;
  connected(false);
  const reason = closed ? await refusal() : null;
  if (reason) {
    byId("lost").textContent = reason;
    return;
  }
  connect();
  mending = false;
}, 2000);

// --- State --------------------------------------------------------------------------------------------------------

function apply(update) {
  if (update.whole) {
    contacts.clear();
    about = update.about;
    showAbout();
  }
  for (const news of update.contacts) {
    const known = contacts.get(news.id) || { entries: new Map(), unread: false };
    const before = known.entries.size;
    for (const entry of news.entries) known.entries.set(entry.id, entry);
    const unread = news.id !== chosen && !update.whole && known.entries.size > before;
    contacts.set(news.id, { ...known, ...news, entries: known.entries, unread: known.unread || unread });
  }
  order = update.order;
  for (const id of [...contacts.keys()]) if (!order.includes(id)) contacts.delete(id);
  switches = update.switches;
  if (update.tools !== tools) showIdeas(update.tools);
  show("trouble", Boolean(update.trouble), update.trouble || "");
  show("real-account", switches.manychat === null);
  if (!contacts.has(chosen)) choose(order[order.length - 1] || null);
  render();
  if (update.whole && order.length === 0) addContact(about.channel);
}

function showAbout() {
  byId("tenant").textContent = about.tenant;
  byId("model").textContent = about.model;
  byId("deadline").textContent = seconds(about.deadline_ms);
  const select = byId("channel");
  select.replaceChildren(...about.channels.map((name) => {
    const option = element("option", "", CHANNELS[name] || name);
    option.value = name;
    return option;
  }));
  select.value = about.channel;
}

function showIdeas(has) {
  tools = has;
  byId("ideas").replaceChildren(...(tools ? [...WISHES, ...IDEAS] : IDEAS).map((idea) => {
    const button = element("button", "", idea);
    button.type = "button";
    button.addEventListener("click", () => send(idea));
    return button;
  }));
}

function choose(id) {
  // Words that were meant for a contact who is gone, as after a restart of the service, stay in the field.
  const kept = contacts.has(chosen) ? "" : byId("text").value;
  if (contacts.has(chosen)) drafts.set(chosen, byId("text").value);
  chosen = id;
  const contact = contacts.get(id);
  if (contact) contact.unread = false;
  byId("text").value = drafts.get(id) || kept;
  byId("chat").replaceChildren();
  follows = true;
  grow();
}

async function addContact(channel) {
  try {
    const { id } = await post("/contacts", { channel });
    settled();
    if (contacts.has(id)) {
      choose(id);
      render();
    } else {
      // Its first update follows; until then it is chosen already.
      choose(id);
    }
    byId("text").focus();
  } catch (error) {
    failed(error);
  }
}

// --- Showing ------------------------------------------------------------------------------------------------------

function render() {
  const contact = contacts.get(chosen);
  renderContacts();
  renderHead(contact);
  renderChat(contact);
  renderQueue(contact);
  renderTurn(contact);
  renderActions(contact);
  renderSwitch("model", MODELS, "The model is a real one: it cannot be told to be slow or to fail.");
  renderSwitch("manychat", ACCOUNTS, "The real ManyChat account is in use.");
  renderProfile(contact);
}

function name(contact) {
  return contact.known_before ? "Earlier contact " + contact.number : "Contact " + contact.number;
}

function avatar(place, contact) {
  place.textContent = String(contact.number);
  place.dataset.hue = String((contact.number - 1) % 5);
}

// A button stays the same element: one that is replaced between press and release takes no click and loses the focus.
function renderContacts() {
  const list = byId("contacts");
  const known = new Map([...list.children].map((item) => [item.dataset.contact, item]));
  arrange(list, order.filter((id) => contacts.has(id)).map((id) => {
    const item = known.get(id) || drawContact(id);
    fillContact(item, id);
    return item;
  }));
}

function drawContact(id) {
  const circle = element("span", "avatar");
  circle.setAttribute("aria-hidden", "true");
  const words = element("span", "words");
  words.append(element("span", "who"), element("span", "last"));
  const mark = element("span", "new");
  mark.append(element("span", "sr", "new messages"));
  const button = element("button");
  button.type = "button";
  button.append(circle, words, mark);
  button.addEventListener("click", () => {
    choose(id);
    render();
    byId("text").focus();
  });
  const item = element("li");
  item.dataset.contact = id;
  item.append(button);
  return item;
}

function fillContact(item, id) {
  const contact = contacts.get(id);
  item.querySelector("button").setAttribute("aria-current", String(id === chosen));
  avatar(item.querySelector(".avatar"), contact);
  item.querySelector(".who").textContent = name(contact);
  item.querySelector(".last").textContent = lastWords(contact);
  item.querySelector(".new").hidden = !contact.unread;
}

// Makes these the children of a place, in this order. Only what changed is touched.
function arrange(place, wanted) {
  for (const child of [...place.children]) if (!wanted.includes(child)) child.remove();
  wanted.forEach((child, position) => {
    if (place.children[position] !== child) place.insertBefore(child, place.children[position] || null);
  });
}

function lastWords(contact) {
  const texts = [...contact.entries.values()].flatMap((entry) => entry.texts || (entry.text && (entry.kind === "said" || entry.kind === "delivered") ? [entry.text] : []));
  return texts.length ? texts[texts.length - 1] : CHANNELS[contact.channel] || contact.channel;
}

function renderHead(contact) {
  byId("chat-name").textContent = contact ? name(contact) : "No contact";
  byId("chat-sub").textContent = contact ? CHANNELS[contact.channel] || contact.channel : "";
  byId("avatar").hidden = !contact;
  if (contact) avatar(byId("avatar"), contact);
  const handoff = contact && contact.record && contact.record.handoff;
  const nobody = "Handed over; nobody is notified: rules.handoff is not set";
  const label = handoff && (contact.record.calls ? "Person called: " + words(handoff) : nobody + " (" + words(handoff) + ")");
  show("chat-handoff", Boolean(handoff), label || "");
  byId("send").disabled = !contact || byId("text").value.trim() === "";
}

function renderChat(contact) {
  const chat = byId("chat");
  const known = new Map([...chat.children].map((line) => [line.dataset.key, line]));
  const wanted = contact ? [...contact.entries.values()].sort((left, right) => left.id - right.id) : [];
  const lines = wanted.map((entry) => {
    const key = entry.id + ":" + (entry.state || "");
    const line = known.get(key) || drawEntry(entry);
    line.dataset.key = key;
    return line;
  });
  if (contact && lines.length === 0) {
    const welcome = known.get("welcome") || element("p", "welcome", "Write what a customer would write. The message takes the way of a real one through ManyChat's webhook.");
    welcome.dataset.key = "welcome";
    lines.push(welcome);
  }
  if (isThinking(contact, wanted)) lines.push(known.get("typing") || typing());
  // A line stays the same element, so that a screen reader reads new lines only.
  arrange(chat, lines);
  if (follows) chat.scrollTop = chat.scrollHeight;
}

function isThinking(contact, entries) {
  if (!contact) return false;
  return entries.some((entry) => entry.state === "sending") || Boolean(contact.record && contact.record.running);
}

function typing() {
  const line = element("div", "line theirs");
  line.dataset.key = "typing";
  const bubble = element("div", "bubble typing");
  bubble.append(element("i"), element("i"), element("i"), element("span", "sr", "The agent is working on a reply"));
  line.append(bubble);
  return line;
}

function renderQueue(contact) {
  const record = contact && contact.record;
  const place = byId("queue");
  if (!record || (record.waiting === 0 && record.given_up === 0)) {
    place.hidden = true;
    return;
  }
  const waits = record.waiting > 0;
  place.classList.toggle("bad", !waits);
  const many = waits ? record.waiting : record.given_up;
  const subject = many === 1 ? "1 reply" : many + " replies";
  let text = waits ? subject + " in the outbox" : subject + " given up" + (record.calls ? "; a person was called" : "; nobody is notified: rules.handoff is not set");
  if (waits && record.attempts > 0) text += " · attempt " + record.attempts;
  if (waits && record.last_error) text += " · next try " + countdown(record.due_ms);
  const reason = waits ? record.last_error : record.given_up_error;
  if (reason) text += " · " + reason;
  if (place.textContent !== text) place.textContent = text;
  place.hidden = false;
}

function countdown(due) {
  const left = Math.ceil((due - Date.now()) / 1000);
  return left > 0 ? "in " + left + " s" : "now";
}

function renderTurn(contact) {
  const record = contact && contact.record;
  const has = Boolean(record && record.outcome);
  byId("turn").hidden = !has;
  byId("turn-empty").hidden = has;
  if (!has) {
    byId("turn-empty").textContent = record && record.running ? "The first turn is running." : "Nothing yet. Send a message.";
    return;
  }
  const [title, tone, sentence] = OUTCOMES[record.outcome] || [words(record.outcome), "", ""];
  const race = byId("race");
  race.className = "pill " + tone;
  race.textContent = title;
  byId("verdict").textContent = sentence;
  rows("turn-rows", [
    ["Outcome", record.outcome],
    ["Response", lastResponse(contact)],
    ["Turn took", record.latency_ms === null ? null : seconds(record.latency_ms)],
    ["Model", record.model],
    ["Tokens", record.input_tokens === null ? null : record.input_tokens + " in, " + record.output_tokens + " out"],
    ["Cost", record.cost_usd === null ? null : "$" + record.cost_usd.toFixed(6)],
    ["Handoff", record.handoff ? words(record.handoff) : "none"],
    ["Outbox", outbox(record)],
    ["Turns", String(record.turns)],
  ]);
}

function lastResponse(contact) {
  const replies = [...contact.entries.values()].filter((entry) => entry.kind === "reply");
  return replies.length ? "after " + seconds(replies[replies.length - 1].took_ms) : null;
}

function outbox(record) {
  if (record.waiting === 0 && record.given_up === 0) return "empty";
  return record.waiting + " waiting" + (record.given_up ? ", " + record.given_up + " given up" : "");
}

function rows(id, pairs) {
  const shown = pairs.filter(([, value]) => value !== null && value !== undefined);
  byId(id).replaceChildren(...shown.map(([label, value]) => {
    const row = element("div");
    row.append(element("dt", "", label), element("dd", "", value));
    return row;
  }));
}

function renderActions(contact) {
  const record = contact && contact.record;
  const turns = record ? record.actions : [];
  let hint = "";
  if (!tools) hint = "This tenant has no tools. “agent bootstrap --tools” writes those of the demo tenant; then start again.";
  else if (record && record.outcome && !record.tools_offered) hint = "The last turn was offered no tools.";
  else if (turns.length === 0) hint = "Nothing yet. Ask for something to read, or for the link.";
  show("actions-hint", hint !== "", hint);
  byId("actions").replaceChildren(...turns.map((turn) => {
    const item = element("li");
    item.append(element("h3", "", clock(turn.at_ms)));
    const list = element("ol");
    list.append(...turn.entries.map(drawAction));
    item.append(list);
    return item;
  }));
}

function renderSwitch(which, choices, without) {
  const value = switches[which];
  byId(which + "-switch").disabled = value === null;
  const place = byId(which + "-choices");
  if (place.children.length === 0) {
    for (const [word, label, hint] of choices) place.append(drawChoice(which, word, label, hint));
  }
  for (const input of place.querySelectorAll("input")) input.checked = input.value === value;
  const chosenOne = choices.find(([word]) => word === value);
  const hint = byId(which + "-hint");
  hint.textContent = chosenOne ? chosenOne[2] : without;
  hint.dataset.position = String(value);
}

function drawChoice(which, word, label, hint) {
  const box = element("label", word === "normal" || word === "none" ? "" : "wrong");
  const input = element("input");
  input.type = "radio";
  input.name = which;
  input.value = word;
  box.title = hint;
  input.addEventListener("change", async () => {
    try {
      await post("/switches", { [which]: word });
      settled();
    } catch (error) {
      failed(error);
      render();
    }
  });
  box.append(input, element("span", "", label));
  return box;
}

function renderProfile(contact) {
  const profile = contact ? contact.profile : { tags: [], fields: [] };
  const tags = profile.tags.map((tag) => element("li", "", tag));
  byId("tags").replaceChildren(...(tags.length ? tags : [element("li", "none", "none")]));
  fieldRows("fields", profile.fields.filter((field) => !field.note));
  const notes = profile.fields.filter((field) => field.note);
  byId("notes-title").hidden = notes.length === 0;
  fieldRows("notes", notes);
  byId("notes").hidden = notes.length === 0;
}

function fieldRows(id, fields) {
  if (fields.length === 0) {
    const none = element("div");
    none.append(element("dd", "none", "none"));
    byId(id).replaceChildren(none);
    return;
  }
  rows(id, fields.map((field) => [field.called || field.name, field.value === null ? "set, and shown to nobody" : field.value]));
}

// --- Writing ------------------------------------------------------------------------------------------------------

function grow() {
  const text = byId("text");
  text.style.height = "auto";
  text.style.height = Math.min(text.scrollHeight + 2, 120) + "px";
  byId("send").disabled = chosen === null || text.value.trim() === "";
}

async function send(text) {
  if (chosen === null || text.trim() === "") return;
  const contact = chosen;
  try {
    await post("/messages", { contact, text });
    settled();
    drafts.delete(contact);
    if (chosen === contact && byId("text").value === text) byId("text").value = "";
    grow();
  } catch (error) {
    // The words stay in the field.
    failed(error);
  }
}

byId("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  send(byId("text").value);
});
byId("text").addEventListener("input", grow);
byId("text").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    send(byId("text").value);
  }
});
byId("new-contact").addEventListener("submit", (event) => {
  event.preventDefault();
  addContact(byId("channel").value);
});
byId("failure-close").addEventListener("click", settled);
// A window that changes its size must not hide the newest line.
byId("chat").addEventListener("scroll", () => {
  const chat = byId("chat");
  follows = chat.scrollHeight - chat.scrollTop - chat.clientHeight < 60;
});
new ResizeObserver(() => {
  if (follows) byId("chat").scrollTop = byId("chat").scrollHeight;
}).observe(byId("chat"));
setInterval(() => renderQueue(contacts.get(chosen)), 500);
connect();
