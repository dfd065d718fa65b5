"""The trainyard command and the Python SDK"""
