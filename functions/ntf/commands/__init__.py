"""What the NTF server does for each command, and what it answers.

request ──authorized?──▶ read ──▶ one transaction ──▶ push, event ──▶ reply
"""
