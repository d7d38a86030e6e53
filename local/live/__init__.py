"""The live page over the emulated run: phones, senders and troubles beside what `console.page` shows of any deployment."""
