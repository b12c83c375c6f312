"use strict";
/* The command that makes the run again, one press away. */
(() => {
  const byId = (id) => document.getElementById(id);

  async function copyCommand() {
    const command = byId("command");
    try {
      await navigator.clipboard.writeText(command.textContent);
      byId("copied").textContent = "Copied.";
    } catch {
      /* Where the clipboard is closed to pages, the selected command is one key away. */
      getSelection().selectAllChildren(command);
      byId("copied").textContent = "Selected; press Ctrl+C to copy.";
    }
  }

  byId("copy").addEventListener("click", copyCommand);
})();
