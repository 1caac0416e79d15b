"""The four wire protocols, each as one module of pure functions.

`decode` decodes a request body; `payload` and `frames` encode a reply, whole or streamed; `refuse` encodes an
error, and `failure` an error inside a stream that began normally.
"""
