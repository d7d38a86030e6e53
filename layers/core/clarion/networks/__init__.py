"""The networks that Clarion watches, a package each."""
