"""Switching of modes. For `cimport`."""

# Set whether ops of this context are recorded: `answer` is False, True or a Recorder. It works also if memory
# is short.
cdef int set_recording(object answer) except -1
