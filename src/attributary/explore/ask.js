// Requests. Each carries the token in a header, which no other site's page can do: it came with the address, behind the
// #, and is kept for this host and port only.
const TOKEN = "attributary-token";

async function takeToken() {
  const given = /^#(once-)?([\w-]{43})$/.exec(location.hash);
  if (!given) return;
  history.replaceState(history.state, "", location.pathname + location.search);
  const [, once, secret] = given;
  if (!once) localStorage.setItem(TOKEN, secret);
  else localStorage.setItem(TOKEN, await (await send("token", {}, { headers: { Authorization: `Ticket ${secret}` } })).text());
}

class Trouble extends Error {
  constructor(words, status) {
    super(words);
    this.status = status;
  }
}

async function send(path, asked = {}, options = {}) {
  const query = new URLSearchParams(Object.entries(asked).filter(([, value]) => value !== "" && value != null));
  const headers = { Authorization: `Bearer ${localStorage.getItem(TOKEN) ?? ""}` };
  let answer;
  try {
    answer = await fetch(`/api/${path}?${query}`, { headers, cache: "no-store", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Trouble("The explorer is not responding. If it was stopped, start it again in the terminal.", 0);
  }
  if (answer.ok) return answer;
  const text = await answer.text();
  let words = text;
  if ((answer.headers.get("content-type") ?? "").includes("json")) words = JSON.parse(text).error;
  throw new Trouble(words, answer.status);
}

const ask = async (path, asked, options) => (await send(path, asked, options)).json();

// The latest question wins: one is under way at most, and what came in between is skipped.
function latest(work) {
  let busy = false;
  let again = null;
  return async function run(...given) {
    if (busy) {
      again = given;
      return;
    }
    busy = true;
    try {
      await work(...given);
      clear(work);
    } catch (error) {
      if (error.name !== "AbortError") complain(error, work);
    }
    busy = false;
    if (again) {
      const next = again;
      again = null;
      await run(...next);
    }
  };
}

// What went wrong, said at the top of the page until the same work succeeds.
let complainant = null;

function complain(error, work = null) {
  complainant = work;
  const box = document.getElementById("trouble");
  box.querySelector("p").textContent = error instanceof Trouble ? error.message : `Something went wrong: ${error.message}`;
  box.querySelector("button").hidden = error.status !== 409;
  box.hidden = false;
  document.documentElement.dataset.ready = "trouble";
  if (!(error instanceof Trouble)) throw error;
}

function clear(work = null) {
  if (work !== complainant) return;
  document.getElementById("trouble").hidden = true;
}
