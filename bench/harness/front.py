"""One nginx with one worker in front of the contestants: a server block, and a port, for each of them."""
import os

from .contestants import free_port
from .process import Process

# Debian's /etc/nginx/fastcgi_params, written out so that a run does not depend on the distribution.
FULL_PARAMETERS = '''
    fastcgi_param QUERY_STRING $query_string; fastcgi_param REQUEST_METHOD $request_method;
    fastcgi_param CONTENT_TYPE $content_type; fastcgi_param CONTENT_LENGTH $content_length;
    fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name; fastcgi_param SCRIPT_NAME $fastcgi_script_name;
    fastcgi_param REQUEST_URI $request_uri; fastcgi_param DOCUMENT_URI $document_uri; fastcgi_param DOCUMENT_ROOT $document_root;
    fastcgi_param SERVER_PROTOCOL $server_protocol; fastcgi_param REQUEST_SCHEME $scheme; fastcgi_param HTTPS $https if_not_empty;
    fastcgi_param GATEWAY_INTERFACE CGI/1.1; fastcgi_param SERVER_SOFTWARE nginx/$nginx_version;
    fastcgi_param REMOTE_ADDR $remote_addr; fastcgi_param REMOTE_PORT $remote_port; fastcgi_param REMOTE_USER $remote_user;
    fastcgi_param SERVER_ADDR $server_addr; fastcgi_param SERVER_PORT $server_port; fastcgi_param SERVER_NAME $server_name;
    fastcgi_param REDIRECT_STATUS 200; fastcgi_param HTTP_HOST $host;'''

# What an ASP.NET Core application needs: the set that `millrace config nginx` prints. Request headers come by themselves.
MINIMAL_PARAMETERS = '''
    fastcgi_param REQUEST_METHOD $request_method; fastcgi_param REQUEST_URI $request_uri; fastcgi_param SERVER_PROTOCOL $server_protocol;
    fastcgi_param SERVER_NAME $server_name; fastcgi_param REMOTE_ADDR $remote_addr; fastcgi_param REMOTE_PORT $remote_port;
    fastcgi_param HTTPS $https if_not_empty; fastcgi_param CONTENT_LENGTH $content_length; fastcgi_param CONTENT_TYPE $content_type;
    fastcgi_param MILLRACE_PATH $uri; fastcgi_param HTTP_HOST $host_app if_not_empty; fastcgi_param HTTP_PROXY "";'''

# The map that stands before the server in the same block.
HOST_MAP = 'map $request $host_app { default $http_host; "~*^[^ ]+ https?://([^/?# ]+)" $1; }'

PARAMETERS = {'full': FULL_PARAMETERS, 'minimal': MINIMAL_PARAMETERS}


class Front:
    def __init__(self, folder, workers=1):
        self.folder = folder
        self.workers = workers
        self.blocks = []
        self.process = None

    def add(self, contestant, address, keep_alive=True, listen=None):
        """Returns the port on which nginx will answer for this contestant; at the address `listen` it does so too."""
        port, upstream = free_port(), f'u{len(self.blocks)}'
        keep = 'keepalive 128; keepalive_requests 100000000;' if keep_alive else ''
        if contestant.protocol == 'fcgi':
            location = (f"{PARAMETERS[contestant.parameters]} {'fastcgi_keep_conn on;' if keep_alive else ''}"
                        f" fastcgi_pass {upstream};")
        else:
            version = '''proxy_http_version 1.1; proxy_set_header Connection '';''' if keep_alive else ''
            location = (f'{version} proxy_set_header Host $host; proxy_set_header X-Forwarded-For $remote_addr;'
                        f' proxy_set_header X-Forwarded-Proto $scheme; proxy_pass http://{upstream};')
        more = f'listen {listen} backlog=4096; ' if listen else ''
        self.blocks.append(f'upstream {upstream} {{ server {address}; {keep} }}\n'
                           f'server {{ listen 127.0.0.1:{port} backlog=4096; {more}location / {{ {location} }} }}\n')
        return port

    def start(self):
        user = 'user root;' if os.getuid() == 0 else ''
        temporary = ' '.join(f'{kind}_temp_path {self.folder}/{kind};' for kind in ('client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'))
        configuration = (f'worker_processes {self.workers}; daemon off; {user} error_log {self.folder}/nginx-error.log; pid {self.folder}/nginx.pid;\n'
                         f'events {{ worker_connections 8192; }}\nhttp {{ access_log off; keepalive_requests 100000000; client_max_body_size 0;\n'
                         f'{temporary}\n{HOST_MAP}\n{"".join(self.blocks)} }}\n')
        path = os.path.join(self.folder, 'nginx.conf')
        with open(path, 'w') as file:
            file.write(configuration)
        self.process = Process(['nginx', '-c', path, '-e', f'{self.folder}/nginx-error.log'], os.path.join(self.folder, 'nginx.log'))
        return self.process

    def stop(self):
        if self.process:
            self.process.stop()
