"""The sensors as they ship, in the real Telegraf."""
