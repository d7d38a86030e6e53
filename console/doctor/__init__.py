"""`clarion doctor`: what stands between an account and a working deployment, and what to do about each of it."""
