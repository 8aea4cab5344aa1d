"use strict";
{
  const form = document.getElementById("filters");
  const count = document.getElementById("count");
  const rows = [...document.querySelectorAll("#rows tr")];
  const selects = [...form.querySelectorAll("select")];
  const text = document.getElementById("f-text");
  // The choice is the address's, so that a view can be linked to.
  const show = (write) => {
    const words = text.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      const chosen = selects.every((one) => !one.value || row.dataset[one.dataset.key] === one.value);
      const content = row.textContent.toLowerCase();
      row.hidden = !(chosen && words.every((word) => content.includes(word)));
      shown += row.hidden ? 0 : 1;
    }
    count.textContent = `${shown} of ${rows.length} ${rows.length === 1 ? "cell" : "cells"}`;
    if (write) {
      const asked = new URLSearchParams();
      for (const one of selects) if (one.value) asked.set(one.dataset.key, one.value);
      if (text.value) asked.set("text", text.value);
      const query = asked.toString();
      try {
        history.replaceState(null, "", query ? `?${query}` : location.pathname);
      } catch {
        // Some browsers give a page from a disk no address that can be changed: the view is right.
      }
    }
  };
  const asked = new URLSearchParams(location.search);
  for (const one of selects) {
    const wanted = asked.get(one.dataset.key);
    if (wanted !== null && [...one.options].some((option) => option.value === wanted)) one.value = wanted;
  }
  text.value = asked.get("text") ?? "";
  form.hidden = false;
  form.addEventListener("input", () => show(true));
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(() => show(true)));
  show(false);
}
