"""interrupt.py COMMAND...: sends SIGINT after two seconds; its output and exit code.

The process starts in far less, also beside others; the command must take longer.
"""
import signal
import subprocess
import sys

process = subprocess.Popen(sys.argv[1:])
try:
    process.wait(timeout=2)
    sys.exit("interrupt.py: it ended by itself")
except subprocess.TimeoutExpired:
    process.send_signal(signal.SIGINT)
sys.exit(process.wait(timeout=300))
