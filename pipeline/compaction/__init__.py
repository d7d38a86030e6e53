"""The stream's lines become files of one kind each, and each hour is found complete."""
