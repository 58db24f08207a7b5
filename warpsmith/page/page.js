"use strict";
// Lines of Python, of CUDA and operations that belong together have a name in common, such as
// f0-12 for line 12 of the first file. Pointing at one lights up the others; a click keeps them.
(function () {
  const known = new Map();
  for (const each of document.querySelectorAll("[data-lines]")) {
    for (const name of each.dataset.lines.split(" ")) {
      if (!known.has(name)) known.set(name, []);
      known.get(name).push(each);
    }
  }
  function related(element) {
    const found = new Set();
    for (const name of element.dataset.lines.split(" ")) {
      for (const each of known.get(name)) found.add(each);
    }
    return found;
  }
  function mark(kind, elements) {
    for (const each of document.querySelectorAll("." + kind)) each.classList.remove(kind);
    for (const each of elements) each.classList.add(kind);
  }
  function within(event) {
    return event.target.closest("[data-lines]");
  }
  document.addEventListener("mouseover", function (event) {
    const element = within(event);
    mark("lit", element ? related(element) : []);
  });
  let kept = null;
  document.addEventListener("click", function (event) {
    const element = within(event);
    kept = element === kept ? null : element;
    const found = kept ? related(kept) : [];
    mark("picked", found);
    for (const panel of document.querySelectorAll(".code")) {
      const inside = [...found].filter(function (each) {
        return panel.contains(each);
      });
      inside.sort(function (one, other) {  // what is there for few lines tells more
        return one.dataset.lines.length - other.dataset.lines.length;
      });
      const first = inside[0];
      if (!first || panel.contains(kept)) continue;
      const below = first.getBoundingClientRect().top - panel.getBoundingClientRect().top;
      panel.scrollTop += below - panel.clientHeight / 3;
    }
  });
})();
