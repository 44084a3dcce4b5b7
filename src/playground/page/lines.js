// Lines of the chat and of the record, drawn: each function makes an element of something that happened. Texts get into it
// as text, never as markup.
"use strict";

const STATUSES = { performed: "good", staged: "", failed: "bad", discarded: "warn", dropped_over_cap: "warn", dead_lettered: "bad", unknown: "warn" };
const FLOWS = { flow: "Flow played", opening: "Opening played", payment_link: "Payment link sent", event: "Event fired", window_closing: "Closing flow played" };
const ROLES = { holding: ["holding line", "warn"], handoff: ["handoff", "warn"], media_fallback: ["media text", ""], closer: ["closer", ""] };

function element(name, className, text) {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text !== undefined && text !== null) made.textContent = text;
  return made;
}

function words(text) {
  return text.replaceAll("_", " ");
}

function seconds(ms) {
  return ms < 1000 ? ms + " ms" : (ms / 1000).toFixed(1) + " s";
}

function clock(ms) {
  const time = new Date(ms);
  return [time.getHours(), time.getMinutes(), time.getSeconds()].map((part) => String(part).padStart(2, "0")).join(":");
}

function drawEntry(entry) {
  switch (entry.kind) {
    case "said": return drawSaid(entry);
    case "reply": return drawReply(entry);
    case "delivered": return drawDelivered(entry);
    case "flow": return drawFlow(entry);
    case "tag": return drawNamed(entry.added ? "Tag added: " : "Tag removed: ", entry);
    case "field": return drawField(entry);
    case "call_failed": return element("p", "event bad", "ManyChat call failed: " + entry.text);
    case "problem": return element("p", "event bad", entry.text);
    default: return element("p", "event", "Something happened that this page does not know: " + entry.kind);
  }
}

function bubbles(side, texts, notes) {
  const line = element("div", "line " + side);
  for (const text of texts) line.append(element("div", "bubble", text));
  const meta = element("p", "meta");
  meta.append(...notes);
  line.append(meta);
  return line;
}

function drawSaid(entry) {
  const notes = [element("span", "", clock(entry.at_ms))];
  if (entry.state === "failed") notes.push(element("span", "failed", "not taken"));
  return bubbles("mine", [entry.text], notes);
}

function drawReply(entry) {
  if (entry.texts.length === 0) {
    return element("p", "event", "Silent response after " + seconds(entry.took_ms) + ": the reply comes another way.");
  }
  const notes = [element("span", "", clock(entry.at_ms) + " · in the response after " + seconds(entry.took_ms))];
  if (entry.role && ROLES[entry.role]) notes.unshift(element("span", "chip " + ROLES[entry.role][1], ROLES[entry.role][0]));
  return bubbles("theirs", entry.texts, notes);
}

function drawDelivered(entry) {
  return bubbles("theirs", [entry.text], [element("span", "chip good", "later"), element("span", "", clock(entry.at_ms) + " · through ManyChat")]);
}

function drawFlow(entry) {
  const known = entry.known;
  const card = element("p", "event flow");
  card.title = entry.name;
  card.append(element("strong", "", known ? FLOWS[known.kind] : "Flow played"), element("br"), element("span", "", known ? known.id : entry.name));
  if (known && known.description) card.append(element("br"), element("span", "about", known.description));
  if (known && known.plays_s > 0) card.append(element("br"), element("span", "about", "Plays for " + known.plays_s + " s; the reply waits for it."));
  return card;
}

// The tenant's id where it has one; ManyChat's own name is the tooltip then.
function drawNamed(title, entry, value) {
  const line = element("p", "event", title + (entry.called || entry.name) + (value ? " = " + value : ""));
  if (entry.called) line.title = entry.name;
  return line;
}

function drawField(entry) {
  if (!entry.note) return drawNamed("Field written: ", entry, entry.called ? entry.value : null);
  const card = element("p", "event note");
  card.title = entry.name;
  card.append(element("strong", "", "Note for colleagues: " + entry.called), element("br"), element("span", "", entry.value));
  return card;
}

function drawAction(entry) {
  const item = element("li");
  const what = entry.id + (entry.value === undefined ? "" : " = " + entry.value);
  item.append(element("span", "tool", words(entry.tool)), element("span", "what", what));
  item.append(element("span", "chip " + (STATUSES[entry.status] || ""), words(entry.status)));
  const more = [];
  if (entry.length !== undefined) more.push(entry.length + " characters");
  if (entry.origin) more.push("sent by the service: " + words(entry.origin));
  if (entry.contactAsked) more.push("the contact asked for it");
  if (entry.error) more.push(entry.error);
  if (more.length) item.append(element("span", "more", more.join(" · ")));
  return item;
}
