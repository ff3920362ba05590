#!/usr/bin/env python3
"""Compare single quantised ops with ONNX Runtime, code by code: quantised_ops.py [CLI]. Fails beyond one code."""
import os
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper as h, numpy_helper as nh

import quantised as Q

CLI = sys.argv[1] if len(sys.argv) > 1 else os.path.join(Q.ROOT, "target/release/polychip")
r=np.random.default_rng(1); D={'u':np.uint8,'s':np.int8}
def case(name,nodes,inits,inputs,out):
    g=h.make_graph(nodes,'g',[h.make_tensor_value_info(n,h.np_dtype_to_tensor_dtype(v.dtype),v.shape) for n,v in inputs.items()],[h.make_tensor_value_info('y',out,None)],[nh.from_array(v,k) for k,v in inits.items()])
    m=h.make_model(g,opset_imports=[h.make_opsetid('',17)],ir_version=8)
    with tempfile.TemporaryDirectory() as d:
        p=d+'/m.onnx'; onnx.save(m,p); want=ort.InferenceSession(p,providers=['CPUExecutionProvider']).run(None,inputs)[0]
        f={}
        for k,v in inputs.items(): f[k]=f'{d}/{k}.npy'; np.save(f[k],v)
        Q.polychip(CLI,'run',p,f,1,'--save',d+'/o'); have=np.load(d+'/o/y.npy')
    dl=np.abs(have.astype(np.int64)-want.astype(np.int64)); print(name, have.dtype, 'max diff',dl.max(),'share',(dl>0).mean())
    assert dl.max() <= (1 if have.dtype.itemsize == 1 else 0), name
def rnd(t,s): i=np.iinfo(D[t]); return r.integers(i.min,i.max+1,s).astype(D[t])
for a,w in ('uu','us','ss'):
    for g,c,o in ((1,6,12),(1,64,40),(24,24,24),(4,16,8)):
        for pc in (0,1):
            if a+w=='ss' or pc==0 or w=='s':
                ws=(r.random(o if pc else 1)*.01+.003).astype(np.float32); 
                wz=np.zeros(o if pc else 1,D[w]) if w=='s' else np.full(o if pc else 1,118,np.uint8)
                if not pc: ws,wz=ws.reshape(()),wz.reshape(())
                ini=dict(xs=np.float32(.02),xz=D[a](5),w=rnd(w,(o,c//g,3,3)),ws=ws,wz=wz,ys=np.float32(.31),yz=D[a](7),b=r.integers(-900,900,o).astype(np.int32))
                case(f'QLinearConv {a}{w} g{g} c{c} pc{pc}',[h.make_node('QLinearConv',['x','xs','xz','w','ws','wz','ys','yz','b'],['y'],group=g,pads=[1]*4)],{k:np.asarray(v) for k,v in ini.items()},{'x':rnd(a,(1,c,9,11))},h.np_dtype_to_tensor_dtype(np.dtype(D[a])))
for w in 'us':
    for g,c,o in ((1,6,12),(24,24,24)):
        case(f'ConvInteger u{w} g{g}',[h.make_node('ConvInteger',['x','w','xz','wz'],['y'],group=g,pads=[1]*4)],dict(w=rnd(w,(o,c//g,3,3)),xz=np.uint8(5),wz=np.array(120 if w=='u' else 0,D[w])),{'x':rnd('u',(1,c,9,11))},6)
for a,w in ('uu','us','ss'):
    ini=dict(xs=np.float32(.02),xz=D[a](5),ws=np.float32(.01),wz=D[w](110 if w=='u' else 0),ys=np.float32(.31),yz=D[a](7))
    for const in (0,1):
        x={'x':rnd(a,(2,13,70))}; wv=rnd(w,(70,33) if const else (2,70,33)); i2={k:np.asarray(v) for k,v in ini.items()}
        if const: i2['w']=wv
        else: x['w']=wv
        case(f'QLinearMatMul {a}{w} const{const}',[h.make_node('QLinearMatMul',['x','xs','xz','w','ws','wz','ys','yz'],['y'])],i2,x,h.np_dtype_to_tensor_dtype(np.dtype(D[a])))
