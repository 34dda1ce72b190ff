// Keeps the marked part of the page fresh: fetches it anew every few seconds, says so when no answer comes,
// and rests while nobody looks. Without this script the page reloads itself (see <noscript> in base.html).
"use strict";

(() => {
  const part = document.querySelector("[data-fragment]");
  if (!part) return;
  const every = Number(part.dataset.every) * 1000;
  const stale = document.getElementById("stale");
  let timer;

  const openDetails = () =>
    new Set([...part.querySelectorAll("details[open][data-key]")].map((d) => d.dataset.key));

  // The reader keeps what was opened, focused and scrolled to.
  function swap(html) {
    const opened = openDetails();
    const focused = part.contains(document.activeElement) ? document.activeElement.id : "";
    const scrolled = part.querySelector(".scroll")?.scrollLeft ?? 0;
    part.innerHTML = html;
    for (const details of part.querySelectorAll("details[data-key]")) {
      if (opened.has(details.dataset.key)) details.open = true;
    }
    if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
    const box = part.querySelector(".scroll");
    if (box) box.scrollLeft = scrolled;
    document.title = part.querySelector("[data-title]")?.dataset.title ?? document.title;
  }

  function selecting() {
    const selection = document.getSelection();
    return selection && !selection.isCollapsed && part.contains(selection.anchorNode);
  }

  function tell(answering) {
    document.body.classList.toggle("is-stale", !answering);
    stale.hidden = answering;
    if (answering) return;
    const since = part.querySelector("[data-as-of]").textContent;
    const text = `The monitor does not answer: stale since ${since}.`;
    if (stale.textContent !== text) stale.textContent = text;
  }

  async function refresh() {
    clearTimeout(timer);
    try {
      const answer = await fetch(part.dataset.fragment, { cache: "no-store", signal: AbortSignal.timeout(2 * every) });
      if (!answer.ok) throw new Error(`status ${answer.status}`);
      const html = await answer.text();
      if (!selecting()) swap(html);
      tell(true);
    } catch {
      tell(false);
    }
    plan();
  }

  function plan() {
    clearTimeout(timer);
    if (!document.hidden) timer = setTimeout(refresh, every);
  }

  document.addEventListener("visibilitychange", () => (document.hidden ? clearTimeout(timer) : refresh()));
  plan();
})();
