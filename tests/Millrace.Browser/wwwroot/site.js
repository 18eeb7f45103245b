document.getElementById('said').textContent = 'the script ran';
