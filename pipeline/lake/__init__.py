"""What lies in the lake, and how it is read and written. Nothing here knows what the lines mean for anybody."""
